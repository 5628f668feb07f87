package python

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/grouper-rl/grouper/internal/golden"
)

// A task of a bank is named by dataset, seed and index. If a draw differed from CPython's in one bit, the same name would
// mean another task here than upstream, and results could not be compared.
func TestRandomGolden(t *testing.T) {
	ops := 0
	for _, path := range golden.Glob(t, "reasoninggym/random.json") {
		var file struct {
			Streams []struct {
				SeedType string `json:"seed_type"`
				Seed     string
				State    []string `json:"state_first5_last"`
				Ops      []randomOp
			}
			First []struct {
				SeedType string `json:"seed_type"`
				Seed     string
				Bits     []string `json:"getrandbits32"`
				Random   []float64
				RandInt  string `json:"randint_0_2pow32"`
			}
		}
		decode(t, golden.Read(t, path), &file)
		for _, s := range file.Streams {
			t.Run(fmt.Sprintf("%s/%s/%s", golden.Name(t, path), s.SeedType, s.Seed), func(t *testing.T) {
				r := seeded(t, s.SeedType, s.Seed)
				var state []string
				for _, i := range []int{0, 1, 2, 3, 4, 623} {
					state = append(state, strconv.FormatUint(uint64(r.state[i*r.step]), 10))
				}
				if !slices.Equal(state, s.State) {
					t.Fatalf("state %v, want %v", state, s.State)
				}
				for i, op := range s.Ops {
					got, ported := op.run(r)
					if !ported { // gauss and the other distributions: no generator draws from them
						break
					}
					if want := compact(op.Out); got != want {
						t.Fatalf("operation %d, %s: got %s, want %s", i, op.Op, got, want)
					}
					ops++
				}
			})
		}
		for _, f := range file.First {
			r := seeded(t, f.SeedType, f.Seed)
			for _, want := range f.Bits {
				if got := strconv.FormatUint(r.Bits(32), 10); got != want {
					t.Errorf("seed %s %q: getrandbits(32) is %s, want %s", f.SeedType, f.Seed, got, want)
				}
			}
			for _, want := range f.Random {
				if got := r.Float64(); got != want {
					t.Errorf("seed %s %q: random() is %v, want %v", f.SeedType, f.Seed, got, want)
				}
			}
			if got := strconv.Itoa(r.RandInt(0, 1<<32)); got != f.RandInt {
				t.Errorf("seed %s %q: randint is %s, want %s", f.SeedType, f.Seed, got, f.RandInt)
			}
			ops++
		}
	}
	t.Logf("%d operations", ops)
	if ops == 0 {
		t.Fatal("no case ran")
	}
}

type randomOp struct {
	Op      string
	N       json.RawMessage
	K       json.RawMessage
	AB      [][]string
	Args    [][]string
	Weights []json.Number
	Cum     []json.Number `json:"cum_weights"`
	Counts  []int
	A, B    float64
	Out     json.RawMessage
}

func (o *randomOp) UnmarshalJSON(data []byte) error {
	type plain randomOp
	var named struct{ Op string }
	if err := json.Unmarshal(data, &named); err != nil {
		return err
	}
	switch named.Op {
	case "random", "getrandbits", "randint", "randrange", "choice", "choices", "shuffle", "sample", "uniform":
		return json.Unmarshal(data, (*plain)(o))
	}
	o.Op = named.Op
	return nil
}

// run draws as the operation says and returns the outcome as compact JSON.
func (o *randomOp) run(r *Random) (out string, ported bool) {
	n, k := number(o.N), number(o.K)
	switch o.Op {
	case "random":
		draws := make([]float64, n)
		for i := range draws {
			draws[i] = r.Float64()
		}
		return sprint(draws), true
	case "getrandbits":
		var draws []string
		for _, k := range numbers(o.K) {
			if k <= 64 {
				draws = append(draws, strconv.FormatUint(r.Bits(k), 10))
			} else {
				draws = append(draws, r.BigBits(k).String())
			}
		}
		return sprint(draws), true
	case "randint":
		var draws []string
		for _, ab := range o.AB {
			if a, b, err := twoInts(ab[0], ab[1]); err == nil {
				draws = append(draws, strconv.Itoa(r.RandInt(a, b)))
			} else {
				draws = append(draws, r.RandIntBig(bigInt(ab[0]), bigInt(ab[1])).String())
			}
		}
		return sprint(draws), true
	case "randrange":
		var draws []string
		for _, a := range o.Args {
			switch len(a) {
			case 1:
				a = []string{"0", a[0], "1"}
			case 2:
				a = append(a, "1")
			}
			start, stop, err := twoInts(a[0], a[1])
			step, err2 := strconv.Atoi(a[2])
			if err == nil && err2 == nil {
				draws = append(draws, strconv.Itoa(r.RandRange(start, stop, step)))
			} else {
				draws = append(draws, r.RandRangeBig(bigInt(a[0]), bigInt(a[1]), bigInt(a[2])).String())
			}
		}
		return sprint(draws), true
	case "choice":
		var draws []int
		for _, n := range numbers(o.N) {
			if n <= 1<<20 {
				draws = append(draws, Choice(r, upTo(n)))
			} else {
				draws = append(draws, r.Below(n))
			}
		}
		return sprint(draws), true
	case "choices":
		switch {
		case o.Weights != nil:
			return sprint(weighted(o.Weights, func(w []int) []int { return WeightedChoices(r, upTo(len(w)), w, k) },
				func(w []float64) []int { return WeightedChoices(r, upTo(len(w)), w, k) })), true
		case o.Cum != nil:
			return sprint(weighted(o.Cum, func(w []int) []int { return CumulativeChoices(r, upTo(len(w)), w, k) },
				func(w []float64) []int { return CumulativeChoices(r, upTo(len(w)), w, k) })), true
		}
		return sprint(Choices(r, upTo(n), k)), true
	case "shuffle":
		items := upTo(n)
		Shuffle(r, items)
		return sprint(items), true
	case "sample":
		switch {
		case o.Counts != nil:
			return sprint(SampleCounts(r, upTo(len(o.Counts)), o.Counts, k)), true
		case n <= 1<<20:
			return sprint(Sample(r, upTo(n), k)), true
		}
		return sprint(SampleRange(r, n, k)), true
	case "uniform":
		return sprint(r.Uniform(o.A, o.B)), true
	}
	return "", false
}

// weighted calls the function of the type that Python sums the weights in.
func weighted(text []json.Number, ints func([]int) []int, floats func([]float64) []int) []int {
	var i []int
	var f []float64
	for _, w := range text {
		if n, err := strconv.Atoi(string(w)); err == nil {
			i = append(i, n)
		}
		x, _ := w.Float64()
		f = append(f, x)
	}
	if len(i) == len(text) {
		return ints(i)
	}
	return floats(f)
}

func seeded(t *testing.T, kind, seed string) *Random {
	t.Helper()
	switch kind {
	case "int":
		if n, err := strconv.Atoi(seed); err == nil {
			return NewRandom(n)
		}
		return NewRandom(bigInt(seed))
	case "str":
		return NewRandom(seed)
	case "bytes":
		b, err := hex.DecodeString(seed)
		if err != nil {
			t.Fatal(err)
		}
		return NewRandom(b)
	case "float":
		f, err := strconv.ParseFloat(seed, 64)
		if err != nil {
			t.Fatal(err)
		}
		return NewRandom(f)
	}
	t.Fatalf("seed of type %q", kind)
	return nil
}
