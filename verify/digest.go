package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/grouper-rl/grouper/checkpoint"
)

// logicalDigest is what the package documentation says. It stands on contents that were read before.
func (v *verifier) logicalDigest() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, "grouper logical digest 1")
	fields, err := v.run.Fields()
	if err != nil {
		return "", err
	}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(h, "field %s %s\n", path, fields[path])
	}
	line := func(kind string, update int, body any, files ...*checkpoint.File) error {
		content := ""
		for _, f := range files {
			if f == nil {
				continue
			}
			c, ok := v.content[f.Path]
			if !ok {
				return fmt.Errorf("%s was not read", f.Path)
			}
			content += " " + c
		}
		data, err := canonical(body)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(h, "%s %d %s%s\n", kind, update, hex.EncodeToString(sum[:]), content)
		return nil
	}
	for _, u := range v.history.Updates {
		u, _ = v.updateAt(u)
		body := struct {
			Update       int             `json:"update"`
			Weights      int             `json:"weights_update"`
			GroupWeights []int           `json:"group_weights,omitempty"`
			Tasks        []string        `json:"tasks"`
			DroppedTasks []string        `json:"dropped_tasks,omitempty"`
			Metrics      json.RawMessage `json:"metrics"`
		}{u.Update, u.Weights, u.GroupWeights, u.Tasks, u.DroppedTasks, u.Metrics}
		if err := line("update", u.Update, body, &u.Rollouts, u.Dropped); err != nil {
			return "", err
		}
	}
	for _, e := range v.history.Evaluations {
		e.Completions.Path, _ = v.at(e.Segment, e.Completions.Path)
		if !v.run.Plan.Evaluation.Scheduled(e.Update, v.history.Update()) {
			continue // made when the run was to end there
		}
		body := struct {
			checkpoint.Evaluation
			Completions *struct{} `json:"completions,omitempty"` // hides the embedded field
			Receipt     *struct{} `json:"receipt,omitempty"`
			Host        *struct{} `json:"host,omitempty"`
		}{Evaluation: e}
		if err := line("evaluation", e.Update, body, &e.Completions); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// canonical is JSON as the ledger has it: no spaces, nothing escaped for HTML.
func canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}
