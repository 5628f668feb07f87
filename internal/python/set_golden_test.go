package python

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/internal/golden"
)

func TestHashGolden(t *testing.T) {
	cases := 0
	for _, path := range golden.Glob(t, "reasoninggym/pyset.json") {
		var file struct {
			Str   [][2]string          `json:"hash_str"`
			Int   [][2]string          `json:"hash_int"`
			Tuple [][2]json.RawMessage `json:"hash_tuple"`
			Float [][2]any             `json:"hash_float"`
		}
		decode(t, golden.Read(t, path), &file)
		check := func(what any, got int64, want any) {
			cases++
			if fmt.Sprint(got) != want {
				t.Errorf("hash(%v) is %d, want %v", what, got, want)
			}
		}
		for _, c := range file.Str {
			check(c[0], HashString(c[0]), c[1])
		}
		for _, c := range file.Int {
			check(c[0], HashBigInt(bigInt(c[0])), c[1])
			if n, err := strconv.Atoi(c[0]); err == nil {
				check(c[0], HashInt(n), c[1])
			}
		}
		for _, c := range file.Tuple {
			var want string
			decode(t, c[1], &want)
			check(string(c[0]), element(t, c[0]).Hash(), want)
		}
		for _, c := range file.Float {
			f, err := c[0].(json.Number).Float64()
			if err != nil {
				t.Fatal(err)
			}
			check(f, HashFloat(f), c[1])
		}
	}
	t.Logf("%d hashes", cases)
	if cases == 0 {
		t.Fatal("no case ran")
	}
}

// Generators put a set into a list and draw from it: one element out of order changes the question.
func TestSetGolden(t *testing.T) {
	steps := 0
	for _, path := range golden.Glob(t, "reasoninggym/pyset.json") {
		var file struct {
			Alphabet []string
			Upper    []string `json:"alphabet_upper"`
			Digits   []string `json:"digits_str"`
			Minus    [][2]string
			Ranges   [][3]json.RawMessage `json:"range_sets"`
			Programs []struct {
				Kind  string
				Steps []setStep
			}
		}
		decode(t, golden.Read(t, path), &file)
		same := func(what string, got, want any) {
			t.Helper()
			steps++
			if sprint(got) != sprint(want) {
				t.Errorf("%s: order %s, want %s", what, sprint(got), sprint(want))
			}
		}
		letters := NewSet(strings.Split("abcdefghijklmnopqrstuvwxyz", "")...)
		same("alphabet", letters.List(), file.Alphabet)
		upper := NewSet[string]()
		for c := range letters.All() {
			upper.Add(strings.ToUpper(c))
		}
		same("upper case alphabet", upper.List(), file.Upper)
		same("digits", NewSet(strings.Split("0123456789", "")...).List(), file.Digits)
		for _, m := range file.Minus {
			same("alphabet - "+m[0], strings.Join(letters.Difference(NewSet(strings.Split(m[0], "")...)).List(), ""), m[1])
		}
		for _, r := range file.Ranges {
			set := NewSet[int]()
			for i := number(r[0]); i < number(r[1]); i++ {
				set.Add(i)
			}
			same("range", set.List(), numbers(r[2]))
		}
		for i, p := range file.Programs {
			var set *Set[value]
			for j := range p.Steps {
				step := &p.Steps[j]
				set = step.run(t, set)
				steps++
				if got, want := compactAll(set.List()), compactAll(step.values(t, step.Order)); got != want {
					t.Fatalf("programme %d (%s), step %d, %s: order %s, want %s", i, p.Kind, j, step.Op, got, want)
				}
			}
		}
	}
	t.Logf("%d orders", steps)
	if steps == 0 {
		t.Fatal("no case ran")
	}
}

type setStep struct {
	Op    string
	Arg   []json.RawMessage
	Out   json.RawMessage
	Order []json.RawMessage
}

func (s *setStep) values(t *testing.T, raw []json.RawMessage) []value {
	var values []value
	for _, r := range raw {
		values = append(values, element(t, r))
	}
	return values
}

func (s *setStep) run(t *testing.T, set *Set[value]) *Set[value] {
	arg := s.values(t, s.Arg)
	switch s.Op {
	case "from_list":
		return NewSet(arg...)
	case "add", "update_list":
		set.Add(arg...)
	case "discard", "discard_each":
		for _, a := range arg {
			set.Discard(a)
		}
	case "update_set":
		set.Update(NewSet(arg...))
	case "difference":
		return set.Difference(NewSet(arg...))
	case "difference_update":
		set.DifferenceUpdate(NewSet(arg...))
	case "union":
		return set.Union(NewSet(arg...))
	case "intersection":
		return set.Intersection(NewSet(arg...))
	case "symmetric_difference":
		return set.SymmetricDifference(NewSet(arg...))
	case "pop":
		if got, want := set.Pop(), element(t, s.Out); got != want {
			t.Fatalf("pop() is %v, want %v", got, want)
		}
	case "copy":
		return set.Clone()
	case "comprehension":
		c := NewSet[value]()
		for v := range set.All() {
			c.Add(v)
		}
		return c
	default:
		t.Fatalf("no operation %q", s.Op)
	}
	return set
}

// value is a Python value of the golden files: its JSON text and its hash.
type value struct {
	text string
	hash int64
}

func (v value) Hash() int64 { return v.hash }

func element(t *testing.T, raw json.RawMessage) value {
	var v any
	decode(t, raw, &v)
	return value{compact(raw), hashOf(v)}
}

func hashOf(v any) int64 {
	switch v := v.(type) {
	case string:
		return HashString(v)
	case json.Number:
		return HashBigInt(bigInt(string(v)))
	case map[string]any:
		if big, ok := v["i"].(string); ok {
			return HashBigInt(bigInt(big))
		}
		var hashes []int64
		for _, e := range v["t"].([]any) {
			hashes = append(hashes, hashOf(e))
		}
		return HashTuple(hashes...)
	}
	panic(fmt.Sprintf("value %v", v))
}
