package reasoninggym

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

// Common are the settings that all datasets share.
type Common struct {
	Seed int64 `json:"seed"` // item i of seed s is item i-1 of seed s+1, but for its number
	Size int   `json:"size"` // how many items there are said to be; items beyond it can be made all the same
	Mode Mode  `json:"mode"` // whose faults the dataset has
}

func (c Common) validate() error {
	return check(
		atLeast("size", c.Size, 1),
		oneOf("mode", c.Mode, Upstream, Corrected),
	)
}

// Number is a setting that may be an integer or a float in Python, where 1 and 1.0 are shown in different ways. A Go float is a
// float: use Integer for 1.
type Number struct {
	value   float64
	integer bool
}

// Integer is an integer as a Number.
func Integer(n int) Number { return Number{float64(n), true} }

// Real is a float as a Number.
func Real(f float64) Number { return Number{value: f} }

// Float64 is the number's value.
func (n Number) Float64() float64 { return n.value }

// String is the number as Python writes it: 1 or 1.0.
func (n Number) String() string {
	if n.integer {
		return strconv.FormatFloat(n.value, 'f', -1, 64)
	}
	return python.FloatRepr(n.value)
}

// MarshalJSON writes the number as Python does. It fails for what is no finite number.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsInf(n.value, 0) || math.IsNaN(n.value) {
		return nil, fmt.Errorf("%v is no finite number", n.value)
	}
	return []byte(n.String()), nil
}

// UnmarshalJSON reads a JSON number: an integer below 2^53, or a float.
func (n *Number) UnmarshalJSON(data []byte) error { return n.set(json.Number(data)) }

// set takes what a Config may hold for a number.
func (n *Number) set(value any) error {
	switch v := value.(type) {
	case Number:
		*n = v
		return nil
	case float64:
		*n = Real(v)
		return nil
	}
	text := fmt.Sprint(value)
	f, err := strconv.ParseFloat(text, 64)
	if kind := reflect.ValueOf(value).Kind(); err != nil || kind == reflect.String && reflect.TypeOf(value) != reflect.TypeFor[json.Number]() {
		return fmt.Errorf("%v is no number", value)
	}
	n.value, n.integer = f, !strings.ContainsAny(text, ".eEnN")
	if n.integer && math.Abs(f) >= 1<<53 {
		return fmt.Errorf("%v is not below 2^53", value)
	}
	return nil
}

// weights are the values of numbers that are weights of a choice. Python adds up integers exactly, and so do float64s as long
// as Number holds them.
func weights(numbers []Number) []float64 {
	values := make([]float64, len(numbers))
	for i, n := range numbers {
		values[i] = n.value
	}
	return values
}

func configError(dataset string, err error) error {
	return fmt.Errorf("reasoninggym: config of %s: %w", dataset, err)
}

// decodeConfig sets the fields of the structs that the targets point to. Unlike encoding/json it takes names only as they
// are written, and no null.
func decodeConfig(config Config, targets ...any) error {
	fields := map[string]reflect.Value{}
	for _, t := range targets {
		v := reflect.ValueOf(t).Elem()
		for i := range v.NumField() {
			fields[v.Type().Field(i).Tag.Get("json")] = v.Field(i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		field, ok := fields[name]
		if !ok {
			return fmt.Errorf("there is no field %q, there are: %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if err := decodeField(config[name], field); err != nil {
			return fmt.Errorf("%s is %s, must be %s", name, shown(config[name]), kindName(field.Type()))
		}
	}
	return nil
}

// shown is a value as JSON, or as Go writes it where JSON has no such value.
func shown(value any) string {
	if value == nil {
		return "null"
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%#v", value)
	}
	return string(data)
}

func decodeField(value any, field reflect.Value) error {
	fresh := reflect.New(field.Type()) // never into the list of a default
	switch target := fresh.Interface().(type) {
	case *any: // is read later
		*target = value
	case *Number:
		if err := target.set(value); err != nil {
			return err
		}
	case *[]Number:
		list := reflect.ValueOf(value)
		if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
			return errors.New("no list")
		}
		*target = make([]Number, list.Len())
		for i := range *target {
			if err := (*target)[i].set(list.Index(i).Interface()); err != nil {
				return err
			}
		}
	default:
		data, err := json.Marshal(value)
		if err == nil {
			err = refuseNull(data)
		}
		if err == nil {
			err = json.Unmarshal(data, target)
		}
		if err != nil {
			return err
		}
	}
	field.Set(fresh.Elem())
	return nil
}

// refuseNull returns an error for null and for a list with null, which encoding/json takes for a zero value.
func refuseNull(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	if list, ok := value.([]any); value == nil || ok && slices.Contains(list, nil) {
		return errors.New("null")
	}
	return nil
}

// kindName is what a field must be, for messages.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list, each element " + kindName(t.Elem())
	}
	return "a number, an integer below 2^53 or a float" // Number is the one struct
}

// cloneSettings copies a config struct with its lists.
func cloneSettings[C Settings](c C) C {
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice && !f.IsNil() {
			f.Set(reflect.AppendSlice(reflect.MakeSlice(f.Type(), 0, f.Len()), f))
		}
	}
	return c
}

// encodeConfig is one JSON object with the fields of all structs, which validate has seen.
func encodeConfig(structs ...any) json.RawMessage {
	var all [][]byte
	for _, s := range structs {
		data, err := json.Marshal(s)
		if err != nil {
			panic(err) // valid settings hold finite numbers, strings and lists, which can all be written
		}
		all = append(all, data[1:len(data)-1])
	}
	return slices.Concat([]byte("{"), bytes.Join(all, []byte(",")), []byte("}"))
}

// check returns the first error.
func check(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func atLeast(field string, value, low int) error {
	if value < low {
		return fmt.Errorf("%s is %d, must be at least %d", field, value, low)
	}
	return nil
}

func between[N int | float64](field string, value, low, high N) error {
	if !(value >= low && value <= high) {
		return fmt.Errorf("%s is %v, must be %v to %v", field, value, low, high)
	}
	return nil
}

// finite refuses infinities and NaN, which no manifest can hold.
func finite(field string, values ...Number) error {
	for _, n := range values {
		if math.IsInf(n.value, 0) || math.IsNaN(n.value) {
			return fmt.Errorf("%s is %v, must be finite", field, n.value)
		}
	}
	return nil
}

// oneOf is for a setting that is one of a few words.
func oneOf[S ~string](field string, value S, allowed ...S) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s is %q, must be one of %q", field, value, allowed)
	}
	return nil
}

// someOf is for a list of at least one of a few words, which may be there more than once.
func someOf[S ~string](field string, values []S, allowed ...S) error {
	if len(values) == 0 {
		return fmt.Errorf("%s is empty, must have at least one of %q", field, allowed)
	}
	for _, v := range values {
		if err := oneOf("an element of "+field, v, allowed...); err != nil {
			return err
		}
	}
	return nil
}

// weightsFor checks the weights of a choice between n things, as random.choices does.
func weightsFor(field string, n int, weights []Number) error {
	if err := finite(field, weights...); err != nil {
		return err
	}
	sum := 0.0
	for _, w := range weights {
		sum += w.value
	}
	if len(weights) != n || !(sum > 0) {
		return fmt.Errorf("%s is %v, must be %d numbers with a sum above 0", field, weights, n)
	}
	return nil
}

func above(field string, value, low int) error {
	if value <= low {
		return fmt.Errorf("%s is %d, must be above %d", field, value, low)
	}
	return nil
}
