package reasoninggym

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

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
			return fmt.Errorf("%s is %#v, must be %s", name, config[name], kindName(field.Type()))
		}
	}
	return nil
}

func decodeField(value any, field reflect.Value) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if string(data) == "null" {
		return errors.New("null")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(field.Addr().Interface())
}

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
	return "a " + t.String()
}

// encodeConfig is one JSON object with the fields of all structs.
func encodeConfig(structs ...any) json.RawMessage {
	var all [][]byte
	for _, s := range structs {
		data, err := json.Marshal(s)
		if err != nil {
			panic(err) // config structs hold numbers, strings and lists, which can all be written
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
