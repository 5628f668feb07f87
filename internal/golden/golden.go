// Package golden finds golden files for tests: below testdata/golden of this repository and below $GROUPER_GOLDEN.
package golden

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// Folders lists the roots that exist, the repository's own first.
func Folders(t testing.TB) []string {
	t.Helper()
	roots := []string{filepath.Join(repository(t), "testdata", "golden")}
	if extra := os.Getenv("GROUPER_GOLDEN"); extra != "" {
		if _, err := os.Stat(extra); err != nil {
			t.Fatalf("GROUPER_GOLDEN: %v", err)
		}
		roots = append(roots, extra)
	}
	var found []string
	for _, r := range roots {
		if info, err := os.Stat(r); err == nil && info.IsDir() {
			found = append(found, r)
		}
	}
	return found
}

// repository is the folder of go.mod at or above the working folder, which in a test is the package's. (The name of this source
// file would not do: -trimpath shortens it.)
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod at or above the working folder")
		}
	}
}

// Glob lists the files that match a pattern relative to each root, also with ".gz" behind it, sorted within a root.
// It is a failure if a root has the pattern's top folder and nothing in it matches; it is a skip if no root has it.
func Glob(t testing.TB, pattern string) []string {
	t.Helper()
	var all []string
	for _, root := range Folders(t) {
		if _, err := os.Stat(filepath.Join(root, strings.Split(pattern, "/")[0])); err != nil {
			continue
		}
		var here []string
		for _, p := range []string{pattern, pattern + ".gz"} {
			m, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(p)))
			if err != nil {
				t.Fatal(err)
			}
			here = append(here, m...)
		}
		sort.Strings(here)
		all = append(all, here...)
	}
	if len(all) == 0 {
		t.Skipf("no golden files %s", pattern)
	}
	return all
}

// Name is a short name of a golden file for a subtest: the root's last element and the path below it.
func Name(t testing.TB, path string) string {
	t.Helper()
	for i, root := range Folders(t) {
		if rel, err := filepath.Rel(root, path); err == nil && !strings.HasPrefix(rel, "..") {
			return []string{"repository", "extra"}[min(i, 1)] + "/" + filepath.ToSlash(rel)
		}
	}
	return path
}

// Read returns a file's content, gunzipped if its name ends in ".gz".
func Read(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		r = z
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return data
}

// Lines returns the non-empty lines of a file as Read has it.
func Lines(t testing.TB, path string) [][]byte {
	t.Helper()
	var lines [][]byte
	s := bufio.NewScanner(strings.NewReader(string(Read(t, path))))
	s.Buffer(nil, 1<<28)
	for s.Scan() {
		if len(s.Bytes()) > 0 {
			lines = append(lines, append([]byte(nil), s.Bytes()...))
		}
	}
	if err := s.Err(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return lines
}
