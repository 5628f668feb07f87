package python

import (
	"encoding/json"
	"math"
	"math/big"
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
			SplitLines [][3]any
			Repr       [][2]any `json:"repr_list"`
			Loads      [][2]any `json:"json_loads"`
		}
		decode(t, golden.Read(t, path), &file)
		same := func(what string, got, want any) {
			t.Helper()
			cases++
			if sprint(got) != sprint(want) {
				t.Errorf("%s is %s, want %s", what, sprint(got), sprint(want))
			}
		}
		for _, row := range file.Whitespace {
			text := row[0].(string)
			for _, c := range text {
				same("white space", [5]any{text, IsSpace(c), len(Fields("a"+text+"b")) == 2, Strip(text+"a") == "a", IsSpace(c)}, row)
			}
		}
		for _, row := range file.Words {
			text := row[0].(string)
			for i, column := range file.Columns {
				switch column {
				case "upper":
					same("upper of "+text, Upper(text), row[i])
				case "lower":
					same("lower of "+text, Lower(text), row[i])
				case "isalpha":
					same("isalpha of "+text, IsAlpha(text), row[i])
				case "isdecimal":
					same("isdecimal of "+text, IsDecimal(text), row[i])
				case "isalnum":
					same("isalnum of "+text, IsAlnum(text), row[i])
				}
			}
		}
		for _, row := range file.Split {
			text := row[0].(string)
			same("split", []any{text, append([]string{}, Fields(text)...), Strip(text)}, row)
		}
		for _, row := range file.SplitLines {
			same("splitlines", append([]string{}, SplitLines(row[0].(string))...), row[1])
		}
		for _, row := range file.Repr {
			same("repr", Repr(pythonValue(row[0])), row[1])
		}
		for _, row := range file.Loads {
			want := row[1].(map[string]any)
			got, err := ParseJSON(row[0].(string))
			if err != nil {
				same("json.loads of "+row[0].(string), outcome(nil, err), want)
			} else {
				same("json.loads of "+row[0].(string), goldenValue(got), want["value"])
			}
		}
	}
	t.Logf("%d texts", cases)
	if cases == 0 {
		t.Fatal("no case ran")
	}
}

// pythonValue turns JSON of the golden files, with tuples as {"$tuple": […]}, into what Repr takes.
func pythonValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := ParseInt(string(v), 10); err == nil {
			return n
		}
		return float(v)
	case []any:
		list := []any{}
		for _, e := range v {
			list = append(list, pythonValue(e))
		}
		return list
	case map[string]any:
		if elements, ok := v["$tuple"]; ok {
			return Tuple(pythonValue(elements).([]any))
		}
		d := &Dict{values: map[string]any{}}
		for key, e := range v {
			d.Set(key, pythonValue(e))
		}
		return d
	}
	return v
}

// goldenValue is how the golden files write what ParseJSON returns.
func goldenValue(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return map[string]any{"$float": FloatRepr(v)}
		}
	case Int:
		if n, ok := v.Int64(); !ok || n > 1<<53 || n < -1<<53 {
			return map[string]any{"$int": v.String()}
		}
	case []any:
		list := []any{}
		for _, e := range v {
			list = append(list, goldenValue(e))
		}
		return list
	case *Dict:
		m := map[string]any{}
		for key, e := range v.All() {
			m[key] = goldenValue(e)
		}
		return m
	}
	return v
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
