package python

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func ExampleNewRandom() {
	r := NewRandom(42) // random.Random(42)
	fmt.Println(r.RandInt(1, 6), r.Float64())
	fmt.Println(Choice(r, []string{"a", "b", "c"}), Sample(r, []int{10, 20, 30, 40}, 2))
	// Output:
	// 6 0.11133106816568039
	// c [30 10]
}

func ExampleSet() {
	s := NewSet("red", "green", "blue") // PYTHONHASHSEED=0
	s.Discard("green")
	s.Add("white")
	fmt.Println(s.List())
	// Output: [red white blue]
}

// A generator that Python would stop with an exception must not bring a training run down.
func TestWrongArgumentsRaise(t *testing.T) {
	r := NewRandom(1)
	for name, c := range map[string]struct {
		call func()
		want string
	}{
		"below":         {func() { r.Below(0) }, "ValueError"},
		"randint":       {func() { r.RandInt(2, 1) }, "ValueError"},
		"big randint":   {func() { r.RandIntBig(big.NewInt(2), big.NewInt(1)) }, "ValueError"},
		"no step":       {func() { r.RandRange(1, 2, 0) }, "ValueError"},
		"empty down":    {func() { r.RandRange(1, 2, -1) }, "ValueError"},
		"empty up":      {func() { r.RandRange(2, -9, 5) }, "ValueError"},
		"bits":          {func() { r.Bits(65) }, "ValueError"},
		"negative bits": {func() { r.BigBits(-1) }, "ValueError"},
		"choice":        {func() { Choice(r, []int{}) }, "IndexError"},
		"choices":       {func() { Choices(r, []int{}, 1) }, "IndexError"},
		"lengths":       {func() { WeightedChoices(r, []int{1}, []int{1, 2}, 1) }, "ValueError"},
		"no weights":    {func() { WeightedChoices(r, []int{}, []int{}, 1) }, "IndexError"},
		"zero weights":  {func() { WeightedChoices(r, []int{1}, []float64{0}, 1) }, "ValueError"},
		"NaN weight":    {func() { WeightedChoices(r, []int{1}, []float64{math.NaN()}, 1) }, "ValueError"},
		"infinity":      {func() { WeightedChoices(r, []int{1}, []float64{math.Inf(1)}, 1) }, "ValueError"},
		"sample":        {func() { SampleRange(r, 2, 3) }, "ValueError"},
		"negative":      {func() { Sample(r, []int{1}, -1) }, "ValueError"},
		"counts":        {func() { SampleCounts(r, []int{1}, []int{0}, 0) }, "ValueError"},
		"counts length": {func() { SampleCounts(r, []int{1}, []int{1, 1}, 0) }, "ValueError"},
		"pop":           {func() { NewSet[int]().Pop() }, "KeyError"},
		"unhashable":    {func() { NewSet[[4]int]() }, "TypeError"},
	} {
		t.Run(name, func(t *testing.T) {
			err := func() (err error) {
				defer Catch(&err)
				c.call()
				return nil
			}()
			var raised Error
			if !errors.As(err, &raised) || raised.Type != c.want {
				t.Errorf("got %v, want a %s", err, c.want)
			}
		})
	}
}

func TestCatchPassesOtherPanics(t *testing.T) {
	defer func() {
		if recover() != "other" {
			t.Error("a panic of something else was swallowed")
		}
	}()
	var err error
	defer Catch(&err)
	panic("other")
}

// Whatever the order is, a Set must be a set.
func TestSetIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.IntRange(-40, 40), 0, 60)
		s, want := NewSet[[2]int](), map[[2]int]bool{}
		for _, k := range keys.Draw(t, "add") {
			s.Add([2]int{k, -k})
			want[[2]int{k, -k}] = true
		}
		for _, k := range keys.Draw(t, "discard") {
			if s.Discard([2]int{k, -k}) != want[[2]int{k, -k}] {
				t.Fatalf("Discard(%d)", k)
			}
			delete(want, [2]int{k, -k})
		}
		for len(want) > 0 {
			if s.Len() != len(want) || len(s.List()) != len(want) {
				t.Fatalf("%d elements, want %d", s.Len(), len(want))
			}
			k := s.Pop()
			if !want[k] || s.Contains(k) {
				t.Fatalf("popped %v", k)
			}
			delete(want, k)
		}
	})
}

// The fields that a tuple of three ints hashes with are those of HashTuple.
func TestTriples(t *testing.T) {
	s := NewSet([3]int{1, 2, 3})
	if s.hash([3]int{1, 2, 3}) != 529344067295497451 { // hash((1, 2, 3))
		t.Error("wrong hash")
	}
	if HashFloat(math.Inf(-1)) != -314159 || HashFloat(math.NaN()) != 0 {
		t.Error("wrong hash of an infinity")
	}
}

// A set of letters iterates in the same order however its elements are written.
func TestCharIsAString(t *testing.T) {
	for _, s := range []string{"a", "z", "\x00", "é", "ÿ", "Ā", "日", "😀"} {
		if got, want := Char([]rune(s)[0]).Hash(), HashString(s); got != want {
			t.Errorf("hash of %q is %d, want %d", s, got, want)
		}
	}
}

func BenchmarkNewRandom(b *testing.B) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		NewRandom(i).Uint32()
	}
}

func BenchmarkUint32(b *testing.B) {
	r := NewRandom(1)
	for b.Loop() {
		r.Uint32()
	}
}

func BenchmarkHashString(b *testing.B) {
	for b.Loop() {
		HashString("isomorphic")
	}
}

func BenchmarkSetDifference(b *testing.B) {
	s, u := NewSet[Char](), NewSet[Char]('a', 'b', 'k', 'm', 'q', 'x', 'z')
	for c := Char('a'); c <= 'z'; c++ {
		s.Add(c)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Difference(u)
	}
}
