package python

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
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
					state = append(state, strconv.FormatUint(uint64(r.state[i]), 10))
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
