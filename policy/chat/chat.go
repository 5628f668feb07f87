// Package chat turns conversations into prompts with the chat template of a model folder, and replies into reasoning and answer.
//
// A [Template] comes from the folder ([Load]) and renders a [Request] as transformers' apply_chat_template does, byte for byte.
// A [Format] does what training needs: it asks a task's question, and gives the part of the reply that is graded.
//
// Templates are Jinja. They are rendered by an implementation of our own, in internal/jinja, which follows Jinja2 in every
// value, error and space, and stops what a template must not do. Go's other implementations do neither: with
// github.com/ardanlabs/jinja v1.8.0 a macro that calls itself, or a text that is doubled in a loop, ends the process.
package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/grouper-rl/grouper/internal/files"
	"github.com/grouper-rl/grouper/policy/chat/internal/jinja"
)

// ErrNoTemplate says that a model folder has no chat template.
var ErrNoTemplate = errors.New("no chat template")

// Errors of renderings.
var (
	// ErrRaised is wrapped by the error of a template that raised an exception: it refuses the conversation or an argument.
	ErrRaised = jinja.ErrRaised
	// ErrLimit is wrapped by the error of a template that was stopped because it did more than any prompt needs.
	ErrLimit = jinja.ErrLimit
)

// Names of files in a model folder that a template may come from.
const (
	FileName       = "chat_template.jinja"
	LegacyFileName = "chat_template.json"        // {"chat_template": "…"}, beside processors
	FolderName     = "additional_chat_templates" // of templates for special uses, by name
	configName     = "tokenizer_config.json"     // "chat_template": "…" or [{"name": …, "template": …}, …]
	specialName    = "special_tokens_map.json"
	maxFile        = 64 << 20 // bytes of one of them
)

// The variant that is used without tools, and the one that is used with tools if there is one.
const (
	defaultVariant = "default"
	toolVariant    = "tool_use"
)

// Template is a model's chat template, with the special tokens that it can name. It is immutable and safe for concurrent use.
type Template struct {
	variants map[string]variant
	special  map[string]string // "bos_token", "eos_token", … as far as the folder has them
}

type variant struct {
	source string
	parsed *jinja.Template
}

// Parse makes a template from its source and the special tokens by the names that templates know them by ("bos_token", …).
// Errors name the line.
func Parse(source string, special map[string]string) (*Template, error) {
	t := &Template{variants: map[string]variant{}, special: special}
	return t, t.add(defaultVariant, source)
}

func (t *Template) add(name, source string) error {
	parsed, err := jinja.Parse(source)
	if err != nil {
		return fmt.Errorf("chat template %q: %w", name, err)
	}
	t.variants[name] = variant{source, parsed}
	return nil
}

// Load reads the chat template of a model folder, from the first of these that there is: chat_template.jinja (with the files
// of additional_chat_templates), "chat_template" in tokenizer_config.json, chat_template.json. Special tokens come from
// tokenizer_config.json, or from special_tokens_map.json where that file is of the old kind without added_tokens_decoder, as
// transformers has it. Without a template the error wraps [ErrNoTemplate].
func Load(fsys fs.FS) (*Template, error) {
	var config struct {
		ChatTemplate json.RawMessage `json:"chat_template"`
		Added        json.RawMessage `json:"added_tokens_decoder"`
	}
	if err := readJSON(fsys, configName, &config); err != nil {
		return nil, err
	}
	t := &Template{variants: map[string]variant{}}
	for _, from := range []func() error{
		func() error { return t.loadFiles(fsys) },
		func() error { return t.loadField(configName, config.ChatTemplate) },
		func() error {
			var legacy struct {
				ChatTemplate json.RawMessage `json:"chat_template"`
			}
			if err := readJSON(fsys, LegacyFileName, &legacy); err != nil {
				return err
			}
			return t.loadField(LegacyFileName, legacy.ChatTemplate)
		},
	} {
		if err := from(); err != nil {
			return nil, err
		}
		if len(t.variants) > 0 {
			var err error
			t.special, err = specialTokens(fsys, config.Added == nil)
			return t, err
		}
	}
	return nil, ErrNoTemplate
}

// loadFiles reads chat_template.jinja and what is beside it.
func (t *Template) loadFiles(fsys fs.FS) error {
	source, err := readFile(fsys, FileName)
	if err != nil || source == nil {
		return err
	}
	if err := t.add(defaultVariant, string(source)); err != nil {
		return err
	}
	others, err := fs.Glob(fsys, path.Join(FolderName, "*.jinja"))
	if err != nil {
		return err
	}
	for _, name := range others {
		source, err := readFile(fsys, name)
		if err != nil {
			return err
		}
		if err := t.add(strings.TrimSuffix(path.Base(name), ".jinja"), string(source)); err != nil {
			return err
		}
	}
	return nil
}

// loadField reads the field chat_template of a JSON file: a template, or templates by name.
func (t *Template) loadField(file string, field json.RawMessage) error {
	var source *string
	if json.Unmarshal(field, &source) == nil {
		if source == nil {
			return nil // null
		}
		return t.add(defaultVariant, *source)
	}
	if field == nil {
		return nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(field, &list); err != nil {
		return fmt.Errorf("%s: chat_template is neither a string nor a list of names and templates: %w", file, err)
	}
	for _, v := range list {
		if err := t.add(v.Name, v.Template); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// specialTokens reads the tokens that templates can name.
func specialTokens(fsys fs.FS, old bool) (map[string]string, error) {
	special := map[string]string{}
	files := []string{configName}
	if old {
		files = append(files, specialName)
	}
	for _, file := range files {
		var fields map[string]json.RawMessage
		if err := readJSON(fsys, file, &fields); err != nil {
			return nil, err
		}
		for _, name := range []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"} {
			field := fields[name]
			var text *string
			var added struct{ Content *string }
			switch {
			case field == nil:
				continue
			case json.Unmarshal(field, &text) == nil:
			case json.Unmarshal(field, &added) == nil && added.Content != nil:
				text = added.Content
			default:
				return nil, fmt.Errorf("%s: %s is neither a string nor an object with content", file, name)
			}
			if text != nil {
				special[name] = *text
			}
		}
	}
	return special, nil
}

// readJSON decodes a file, if there is one.
func readJSON(fsys fs.FS, name string, into any) error {
	data, err := readFile(fsys, name)
	if err != nil || data == nil {
		return err
	}
	if err := files.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readFile returns nil if there is no such file.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	data, err := files.Read(fsys, name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// pick returns the variant for a conversation with or without tools.
func (t *Template) pick(tools bool) (variant, error) {
	if v, ok := t.variants[toolVariant]; ok && tools {
		return v, nil
	}
	v, ok := t.variants[defaultVariant]
	if !ok {
		return v, fmt.Errorf("the folder has chat templates by name, and none is %q", defaultVariant)
	}
	return v, nil
}

// Digest is the SHA-256, in hexadecimal, of the template's source, as it is used with tools or without. For a folder with
// chat_template.jinja it is that file's.
func (t *Template) Digest(tools bool) (string, error) {
	v, err := t.pick(tools)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(v.source))
	return hex.EncodeToString(sum[:]), nil
}

// Rendered is a prompt.
type Rendered struct {
	Text string
	// Generated are the texts inside {% generation %} blocks, in order: what the model wrote, in templates that mark it.
	Generated []string
}

// Render turns a conversation into text. The tokenizer must add no special tokens to it: the template has written them.
// Errors wrap [ErrRaised] and [ErrLimit] where they apply, and name the template's line.
func (t *Template) Render(ctx context.Context, r Request) (Rendered, error) {
	v, err := t.pick(r.Tools != nil)
	if err != nil {
		return Rendered{}, err
	}
	variables, undo, err := r.variables(v.source, t.special)
	if err != nil {
		return Rendered{}, err
	}
	out, err := v.parsed.Render(ctx, variables, r.Now)
	if err != nil {
		return Rendered{}, fmt.Errorf("chat template: %w", err)
	}
	if r.Continue != "" {
		if out.Text, err = undo.cut(out.Text); err != nil {
			return Rendered{}, err
		}
	}
	return Rendered(out), nil
}
