package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
)

//go:embed page.tmpl
var pageText string

//go:embed index.tmpl
var indexText string

var functions = template.FuncMap{"cell": cell, "code": code, "fence": fence}

var (
	pageTemplate  = template.Must(template.New("page").Funcs(functions).Parse(pageText))
	indexTemplate = template.Must(template.New("index").Funcs(functions).Parse(indexText))
)

// page is what a dataset's page shows.
type page struct {
	reasoninggym.Info
	config
	Task       envs.Task // item 0 of seed 42
	Metadata   []string  // names of the fields
	Settings   []setting
	Faults     []fault
	Attributes []attribute
}

type setting struct{ Name, Kind, Default, Comment string }

type fault struct{ What, Example string }

type attribute struct{ Name, Description, Fields, Levels string }

type category struct {
	Name     string
	Datasets []reasoninggym.Info
}

// render returns all pages by file name.
func render() (map[string][]byte, error) {
	source, err := readConfigs(sourceFolder)
	if err != nil {
		return nil, err
	}
	pages := map[string][]byte{}
	byCategory := map[string][]reasoninggym.Info{}
	for _, info := range reasoninggym.Names() {
		p, err := newPage(info, source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", info.Name, err)
		}
		if pages[info.Name+".md"], err = execute(pageTemplate, p); err != nil {
			return nil, err
		}
		byCategory[info.Category] = append(byCategory[info.Category], info)
	}
	var categories []category
	for _, name := range slices.Sorted(maps.Keys(byCategory)) {
		categories = append(categories, category{name, byCategory[name]})
	}
	pages["README.md"], err = execute(indexTemplate, categories)
	return pages, err
}

func execute(t *template.Template, data any) ([]byte, error) {
	var b bytes.Buffer
	err := t.Execute(&b, data)
	return append(bytes.TrimSpace(b.Bytes()), '\n'), err
}

func newPage(info reasoninggym.Info, source configs) (page, error) {
	own, ok := source.structs[source.of[info.Name]]
	if !ok {
		return page{}, errors.New("its config struct was not found in the source")
	}
	p := page{Info: info, config: own}
	dataset, err := reasoninggym.New(info.Name, nil)
	if err != nil {
		return page{}, err
	}
	if p.Task, err = dataset.Task(context.Background(), 0); err != nil {
		return page{}, err
	}
	if p.Metadata, err = keys(p.Task.Metadata); err != nil {
		return page{}, err
	}
	if p.Settings, err = settings(info, own, source); err != nil {
		return page{}, err
	}
	for _, f := range info.Faults {
		example, err := show(info.Name, f)
		if err != nil {
			return page{}, err
		}
		p.Faults = append(p.Faults, fault{f.What, example})
	}
	for _, a := range info.Attributes {
		var levels []string
		for _, level := range a.Levels {
			text, err := json.Marshal(level)
			if err != nil {
				return page{}, err
			}
			levels = append(levels, code(string(text)))
		}
		p.Attributes = append(p.Attributes, attribute{a.Name, a.Description, code(strings.Join(a.Fields, ", ")), strings.Join(levels, ", ")})
	}
	return p, nil
}

// settings are the rows of the table: the dataset's own, those of the elements of a list, and those that all datasets have.
func settings(info reasoninggym.Info, own config, source configs) ([]setting, error) {
	var defaults map[string]json.RawMessage
	if err := json.Unmarshal(info.Defaults, &defaults); err != nil {
		return nil, err
	}
	var rows []setting
	for _, f := range slices.Concat(own.fields, source.structs["Common"].fields) {
		value, ok := defaults[f.name]
		if !ok {
			return nil, fmt.Errorf("there is no default of %s", f.name)
		}
		rows = append(rows, setting{f.name, f.kind, code(string(value)), f.comment})
		for _, inner := range source.structs[f.element].fields {
			rows = append(rows, setting{f.name + "[]." + inner.name, inner.kind, "", inner.comment})
		}
	}
	return rows, nil
}

// keys are the names of a JSON object's fields, in order, without those that all metadata begin with.
func keys(object []byte) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var names []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if name != "source_dataset" && name != "source_index" {
			names = append(names, code(fmt.Sprint(name)))
		}
	}
	return names, nil
}

// show runs the example of a fault in both modes and says what differs.
func show(name string, f reasoninggym.Fault) (string, error) {
	ctx := context.Background()
	type outcome struct {
		task  envs.Task
		score float64
		none  bool // the item cannot be made
	}
	run := func(mode reasoninggym.Mode, ofTask *envs.Task) (o outcome, err error) {
		config := reasoninggym.Config{}
		maps.Copy(config, f.Config)
		config["mode"] = mode
		d, err := reasoninggym.New(name, config)
		if err != nil {
			return o, err
		}
		o.task, err = d.Task(ctx, f.Index)
		if o.none = errors.Is(err, reasoninggym.ErrNoItem); err != nil && !o.none {
			return o, err
		}
		if ofTask == nil {
			ofTask = &o.task
		}
		o.score, err = d.Score(ctx, *ofTask, f.Example(*ofTask))
		return o, err
	}
	upstream, err := run(reasoninggym.Upstream, nil)
	if err != nil {
		return "", err
	}
	corrected, err := run(reasoninggym.Corrected, &upstream.task)
	if err != nil {
		return "", err
	}
	item := "item " + strconv.Itoa(f.Index)
	if len(f.Config) > 0 {
		settings, err := json.Marshal(f.Config)
		if err != nil {
			return "", err
		}
		item += " with " + code(string(settings))
	}
	switch old, fresh := upstream.task, corrected.task; {
	case upstream.none:
		return fmt.Sprintf("Upstream cannot make %s; corrected, its answer is %s.", item, code(fresh.Answer)), nil
	case corrected.none:
		return fmt.Sprintf("Upstream's answer to %s is %s; corrected, there is no such item.", item, code(old.Answer)), nil
	case old.Answer != fresh.Answer && old.Question == fresh.Question:
		return fmt.Sprintf("Upstream's answer to %s is %s; corrected, it is %s.", item, code(old.Answer), code(fresh.Answer)), nil
	case old.Question != fresh.Question && old.Answer == "":
		return fmt.Sprintf("An example is %s; corrected, it is another one.", item), nil
	case old.Question != fresh.Question:
		return fmt.Sprintf("Upstream's answer to %s is %s; corrected, the question is another one.", item, code(old.Answer)), nil
	}
	return fmt.Sprintf("%s to %s scores %s upstream and %s corrected.", code(f.Example(upstream.task)), item, number(upstream.score), number(corrected.score)), nil
}

func number(score float64) string { return strconv.FormatFloat(score, 'g', 3, 64) }

// code is a text as code within a line. Long texts are cut.
func code(text string) string {
	const longest = 400
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	if text == "" || strings.TrimSpace(text) != text || strings.ContainsAny(text, "\n\r\t") {
		text = strconv.Quote(text)
	}
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// fence is a text as a block of code.
func fence(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + strings.TrimRight(text, "\n") + "\n" + fence
}

// cell keeps the bars in a text from ending a table's cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
