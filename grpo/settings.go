package grpo

import (
	"fmt"
	"slices"
)

// setDefault gives a field that was left out its value.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func badSetting(field string, value any, allowed string) error {
	return fmt.Errorf("grpo: %s is %v, allowed: %s", field, value, allowed)
}

func oneOf[T ~string](field string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return badSetting(field, fmt.Sprintf("%q", value), fmt.Sprintf("%q", allowed))
}

// inRange refuses NaN too.
func inRange(field string, value, low, high float64) error {
	if value >= low && value <= high {
		return nil
	}
	return badSetting(field, value, fmt.Sprintf("%v to %v", low, high))
}
