// Command docs writes docs/environments: a page for each dataset of reasoninggym and an index. All that they say comes from the code,
// and a test fails where they say anything else.
//
//	go generate ./envs/reasoninggym/...
package main

import (
	"log"
	"os"
	"path/filepath"
)

//go:generate go run .

// Both seen from this folder, where go generate and the test run.
const (
	sourceFolder = "../.."
	pagesFolder  = "../../../../docs/environments"
)

func main() {
	log.SetFlags(0)
	if err := write(); err != nil {
		log.Fatal("docs: ", err)
	}
}

func write() error {
	pages, err := render()
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(pagesFolder, "*.md"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if _, ok := pages[filepath.Base(path)]; !ok { // of a dataset that is no more
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(pagesFolder, name), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}
