package verify

import (
	"os"

	"github.com/grouper-rl/grouper/rescore"
)

// labels checks what other graders have said of the completions. It stands beside the record and is no part of it.
func (v *verifier) labels() {
	names, err := rescore.Names(v.dir)
	if err != nil {
		v.fails(rescore.Folder, err)
		return
	}
	for _, name := range names {
		m, err := rescore.Read(v.dir, name, v.events)
		if err != nil {
			v.fails(rescore.Folder+"/"+name, err)
			continue
		}
		v.note("%s/%s: %s, version %s, graded %d completions and would give %d another reward; the record's rewards stand",
			rescore.Folder, name, m.Grader.Source, m.Version, m.Completions, m.Differ)
	}
	entries, err := os.ReadDir(v.path(rescore.Folder))
	if err == nil && len(entries) > len(names) {
		v.note("%s has %d entries that are no finished labels", rescore.Folder, len(entries)-len(names))
	}
}
