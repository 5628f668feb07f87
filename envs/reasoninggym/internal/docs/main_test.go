package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Readers of the pages believe them: what they say must be what the code does now.
func TestPagesAreFresh(t *testing.T) {
	pages, err := render()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(pagesFolder, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the code says (%v): run go generate ./envs/reasoninggym/...", name, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(pagesFolder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if _, ok := pages[filepath.Base(path)]; !ok {
			t.Errorf("%s is of no dataset: run go generate ./envs/reasoninggym/...", path)
		}
	}
}

// A table with a field that nobody explains, or that a text breaks, is of no use.
func TestPagesAreWhole(t *testing.T) {
	pages, err := render()
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		columns := 0
		for line := range strings.Lines(string(page)) {
			if !strings.HasPrefix(line, "| ") {
				columns = 0
				continue
			}
			n := strings.Count(line, "|") - strings.Count(line, `\|`)
			if columns == 0 {
				columns = n
			}
			if n != columns {
				t.Errorf("%s: %q has %d bars, want %d", name, line, n, columns)
			}
			if cells := strings.Split(strings.TrimSpace(line), "|"); strings.HasPrefix(line, "| `") && strings.TrimSpace(cells[len(cells)-2]) == "" {
				t.Errorf("%s: nothing is said of %s", name, cells[1])
			}
		}
	}
}
