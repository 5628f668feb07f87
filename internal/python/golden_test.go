package python

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/internal/golden"
)

func TestTextGolden(t *testing.T) {
	cases := 0
	for _, path := range golden.Glob(t, "reasoninggym/pytext.json") {
		var file struct {
			Whitespace [][5]any
			Columns    []string
			Words      [][]any
			Split      [][3]any
		}
		decode(t, golden.Read(t, path), &file)
		for _, row := range file.Whitespace {
			text := row[0].(string)
			for _, c := range text {
				got := [5]any{text, IsSpace(c), len(Fields("a"+text+"b")) == 2, Strip(text+"a") == "a", IsSpace(c)}
				if got != row {
					t.Errorf("white space: got %v, want %v", got, row)
				}
				cases++
			}
		}
		alpha := slices.Index(file.Columns, "isalpha")
		for _, row := range file.Words {
			if got := IsAlpha(row[0].(string)); got != row[alpha] {
				t.Errorf("isalpha of %q is %v", row[0], got)
			}
			cases++
		}
		for _, row := range file.Split {
			text := row[0].(string)
			if got := sprint([]any{text, append([]string{}, Fields(text)...), Strip(text)}); got != sprint(row) {
				t.Errorf("split: got %s, want %s", got, sprint(row))
			}
			cases++
		}
	}
	t.Logf("%d texts", cases)
	if cases == 0 {
		t.Fatal("no case ran")
	}
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// sprint is compact JSON with numbers as Go writes them, and compact rewrites JSON text so that it can be compared.
func sprint(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return compact(b)
}

func compact(raw json.RawMessage) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	if v == nil {
		v = []any{}
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func compactAll(values []value) string {
	var b strings.Builder
	for _, v := range values {
		b.WriteString(v.text + " ")
	}
	return b.String()
}

func number(raw json.RawMessage) int {
	n, _ := strconv.Atoi(string(raw))
	return n
}

func numbers(raw json.RawMessage) []int {
	var list []int
	if err := json.Unmarshal(raw, &list); err != nil {
		panic(err)
	}
	return list
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func twoInts(a, b string) (int, int, error) {
	x, err := strconv.Atoi(a)
	if err != nil {
		return 0, 0, err
	}
	y, err := strconv.Atoi(b)
	return x, y, err
}

func bigInt(s string) *big.Int {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		panic("not an integer: " + s)
	}
	return n
}
