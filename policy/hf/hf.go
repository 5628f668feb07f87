// Package hf reads and writes model folders in Hugging Face's layout: config.json, safetensors, tokenizer files,
// generation_config.json.
package hf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/grouper-rl/grouper/internal/files"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/chat"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// ErrUnsupported is wrapped by errors about models that are well-formed but of a kind that Grouper does not compute.
var ErrUnsupported = errors.New("unsupported model")

// Names of files in a model folder.
const (
	configName     = "config.json"
	generationName = "generation_config.json"
	weightsName    = "model.safetensors"
	indexName      = "model.safetensors.index.json"
)

// Model is what a model folder holds besides its weights. It is a policy.
type Model struct {
	*decoder.Decoder
	Tokenizer tokenizer.Tokenizer // nil if the folder has none or one that is not supported
	// TokenizerErr says why Tokenizer is nil; it wraps [fs.ErrNotExist] if the folder has no tokenizer.json, else [tokenizer.ErrUnsupported].
	TokenizerErr error
	Chat         *chat.Template // nil if the folder has no chat template or one that cannot be read
	ChatErr      error          // says why Chat is nil; it wraps [chat.ErrNoTemplate] if there is none
	Generation   Generation     // special tokens and sampling settings
	// Files holds the folder's small files as they are, by name: config.json, generation_config.json, tokenizer, chat templates
	// (also additional_chat_templates/NAME.jinja) and licences. [Save] writes them unchanged.
	Files map[string][]byte
	// PassedThrough names the tensors of the folder that belong to parts which are not computed here, such as a vision
	// tower or the heads of multi-token prediction. Sorted. [Save] copies them from the folder, which must be there still.
	PassedThrough []string

	source fs.FS            // the folder that was loaded; nil for [New]
	loaded map[string]stamp // its files of weights, as they were then
}

// kept are the files that a loaded model keeps; the largest of them are vocabularies of some ten megabytes.
var kept = []string{configName, generationName, tokenizer.FileName, tokenizer.ConfigFileName, "special_tokens_map.json",
	"added_tokens.json", "vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json"}

const maxKept = 256 << 20 // bytes of one of them

// New makes the model folder's description for a decoder that was configured here; [Save] writes it. The tokenizer may be nil;
// its vocabulary must fit the decoder's.
func New(d *decoder.Decoder, tok *tokenizer.Char) (*Model, error) {
	m := &Model{Decoder: d, Files: map[string][]byte{}, Generation: Generation{BOS: tokenizer.None, Pad: tokenizer.None}}
	if tok != nil {
		if tok.VocabSize() > d.VocabSize() {
			return nil, fmt.Errorf("the tokenizer has %d tokens, the decoder %d", tok.VocabSize(), d.VocabSize())
		}
		files, err := tok.Files()
		if err != nil {
			return nil, err
		}
		m.Tokenizer, m.Files = tok, files
		m.Generation.BOS, m.Generation.Pad = tok.BOS(), tok.Pad()
		if id := tok.EOS(); id != tokenizer.None {
			m.Generation.EOS = []int32{id}
		}
	}
	var err error
	if m.Files[configName], err = writeConfig(d.Config(), m.Generation); err != nil {
		return nil, err
	}
	m.Files[generationName], err = m.Generation.write()
	return m, err
}

// Load reads a model folder. The weights are in host memory, in the order of the model's Params and in the dtype that they are
// stored in, with update number 0; they are read straight to where they stay, so loading takes no more memory than they and a few
// megabytes (from a file system whose files can be read at any place, as those of [os.DirFS]). Errors name the file and the field or tensor; they wrap [ErrUnsupported] where the folder is
// of a kind that is not implemented.
func Load(ctx context.Context, fsys fs.FS) (*Model, *policy.Weights, error) {
	m := &Model{Files: map[string][]byte{}, source: fsys}
	for _, name := range kept {
		data, err := files.Read(fsys, name, maxKept)
		if errors.Is(err, fs.ErrNotExist) && name != configName {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		m.Files[name] = data
	}
	if err := m.keepListed(fsys); err != nil {
		return nil, nil, err
	}
	cfg, fam, err := parseConfig(m.Files[configName])
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", configName, err)
	}
	if m.Generation, err = parseGeneration(m.Files[configName], m.Files[generationName]); err != nil {
		return nil, nil, err
	}
	if m.Chat, err = chat.Load(fsys); err != nil {
		m.Chat, m.ChatErr = nil, err
	}
	tokenized := make(chan error)
	go func() { tokenized <- m.readTokenizer(cfg.Vocab) }() // which takes a third of the time that the weights of a small model take
	w, err := m.readWeights(ctx, cfg, fam)
	if err := cmp.Or(<-tokenized, err); err != nil {
		if w != nil {
			w.Free()
		}
		return nil, nil, err
	}
	return m, w, nil
}

// readTokenizer sets Tokenizer or TokenizerErr.
func (m *Model) readTokenizer(vocab int) error {
	file, ok := m.Files[tokenizer.FileName]
	if !ok {
		m.TokenizerErr = &fs.PathError{Op: "open", Path: tokenizer.FileName, Err: fs.ErrNotExist}
		return nil
	}
	tok, err := tokenizer.Parse(file, m.Files[tokenizer.ConfigFileName])
	switch {
	case errors.Is(err, tokenizer.ErrUnsupported):
		m.TokenizerErr = err
		return nil
	case err != nil:
		return err
	case tok.VocabSize() > vocab:
		return fmt.Errorf("%s has %d tokens, vocab_size in %s is %d", tokenizer.FileName, tok.VocabSize(), configName, vocab)
	}
	m.Tokenizer = tok
	return nil
}

// readWeights sets Decoder and PassedThrough.
func (m *Model) readWeights(ctx context.Context, cfg decoder.Config, fam *family) (*policy.Weights, error) {
	stored, err := openWeights(m.source)
	if err != nil {
		return nil, err
	}
	defer stored.close()
	if m.Decoder, err = stored.decoder(&cfg, fam); err != nil {
		return nil, err
	}
	m.loaded = stored.stamps
	tied := tiedNames{embedding: cfg.Names[decoder.Embedding]}
	if cfg.Tied {
		tied.head = cfg.Names[decoder.Head]
	}
	w, passed, err := stored.read(ctx, m.Params(), tied, fam.isTower)
	m.PassedThrough = passed
	return w, err
}

// keepListed takes along what is found by listing the folder: licences and chat templates for special uses.
func (m *Model) keepListed(fsys fs.FS) error {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil // a file system that cannot list, such as a remote one
	}
	names, err := fs.Glob(fsys, path.Join(chat.FolderName, "*.jinja"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := fs.Stat(fsys, e.Name()); isLicence(e.Name()) && err == nil && info.Mode().IsRegular() {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		if m.Files[name], err = files.Read(fsys, name, maxKept); err != nil {
			return err
		}
	}
	return nil
}
