package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// recordName are the paths that recording gives to completions, figures, checkpoints and receipts.
var recordName = regexp.MustCompile(`^(rollouts/\d{6,}(\.s\d+(\.\d+)?)?(\.dropped)?\.jsonl\.zst|evals/\d{6,}(\.s\d+(\.\d+)?)?\.(jsonl\.zst|json)|checkpoints/\d{6,}(\.s\d+(\.\d+)?)?|receipts/(evaluation|checkpoint|finished)-\d{6,}(\.s\d+(\.\d+)?)?\.json(\.sig)?)$`)

// unrecorded names what a crash left between a file's writing and its event.
func (r *Run) unrecorded() ([]File, error) {
	var found []File
	for _, folder := range folders[1:] {
		entries, err := os.ReadDir(r.path(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			name := folder + "/" + e.Name()
			receipt, isSignature := strings.CutSuffix(name, signatureExt)
			if r.named[name] != "" || isSignature && r.named[receipt] != "" {
				continue
			}
			if !recordName.MatchString(name) {
				r.note("%s is not of this run", name)
				continue
			}
			files, err := listFiles(r.dir, name)
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				if r.named[f.Path] == "" {
					found = append(found, f)
					r.note("%s was written and not recorded", f.Path)
				}
			}
		}
	}
	return found, nil
}

// noteLost looks for the completions, figures and receipts that the ledger names. A run can go on without them, since checkpoints have all
// that it needs, but nobody can verify it any more, which is better known before hours are spent on it. Contents are
// for verification: reading them all would take longer the longer a run is.
func (r *Run) noteLost() {
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(r.named)) {
		if !strings.HasPrefix(name, "rollouts/") && !strings.HasPrefix(name, "evals/") && !strings.HasPrefix(name, "receipts/") {
			continue
		}
		if info, err := os.Stat(r.path(name)); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 {
		r.note("%d of the files that the ledger names are missing or empty, %s first: the run can go on, but it cannot be verified without them", len(lost), lost[0])
	}
}

// named appends the file to those that an event names, if it is one.
func (f File) named(files []File) []File {
	if f.Path == "" {
		return files
	}
	return append(files, f)
}

// listFiles names the files below a path of the run directory as they are; none if nothing is there. The path itself may be
// a link to a folder elsewhere.
func listFiles(dir, name string) ([]File, error) {
	files := []File{}
	root, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		digest, err := fileDigest(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		files = append(files, File{Path: path.Join(name, filepath.ToSlash(rel)), SHA256: digest})
		return err
	})
	return files, err
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
