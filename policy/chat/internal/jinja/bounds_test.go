package jinja

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A model folder from the hub brings a program along, its template. None may hang the run, fill the memory or end the process,
// which a stack overflow in Go does whatever is recovered.
func TestHostileTemplatesAreStopped(t *testing.T) {
	loop := func(body string) string {
		return "{% for a in range(100000) %}{% for b in range(100000) %}" + body + "{% endfor %}{% endfor %}"
	}
	grow := func(set, expr string) string { // one doubling an iteration
		return "{% set ns = namespace(x=" + set + ") %}{% for i in range(100) %}{% set ns.x = " + expr + " %}{% endfor %}"
	}
	long := func(text, expr string) string { // what goes through long texts again and again, and makes none
		return "{% set x = " + text + " %}{% set y = " + text + " %}{% for i in range(100000) %}{% set z = " + expr + " %}{% endfor %}"
	}
	for name, source := range map[string]string{
		"loops":                  loop(""),
		"output":                 loop(strings.Repeat("text ", 1000)),
		"loops in an expression": loop("{{ range(100000)|sum }}"),
		"recursion":              "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"mutual recursion":       "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
		"recursion by default":   "{% macro f(a=f()) %}{% endmacro %}{{ f() }}",
		"fan-out":                "{% macro f(n) %}{{ f(n + 1) if n < 60 }}{{ f(n + 1) if n < 60 }}{% endmacro %}{{ f(0) }}",
		"a namespace in itself":  "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
		"a list in a namespace":  "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a|string }}",
		"doubled text":           grow("'a'", "ns.x ~ ns.x"),
		"doubled by +":           grow("'a'", "ns.x + ns.x"),
		"doubled list":           grow("[1]", "ns.x + ns.x"),
		"nested list":            grow("[1]", "[ns.x, ns.x]") + "{{ ns.x }}",
		"nested list as JSON":    grow("[1]", "[ns.x, ns.x]") + "{{ ns.x|tojson }}",
		"nested lists compared":  grow("[1]", "[ns.x, ns.x]") + grow("[1]", "[ns.x, ns.x]") + "{% set y = ns.x %}" + grow("[1]", "[ns.x, ns.x]") + "{{ ns.x == y }}",
		"nested lists ordered":   grow("[1]", "[ns.x, ns.x]") + "{% set y = ns.x %}" + grow("[1]", "[ns.x, ns.x]") + "{{ ns.x < y }}",
		"deep list":              "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
		"squared integer":        grow("3", "ns.x * ns.x"),
		"power":                  "{{ 7 ** 10000000000 }}",
		"repeated text":          "{{ 'ab' * 10000000000 }}",
		"repeated long text":     "{{ ('ab' * 1000000) * 9223372036854775807 }}",
		"repeated empty list":    "{{ [] * 10000000000 }}{{ [[]] * 10000000000 }}",
		"indent":                 "{{ 'a'|indent(100000000000) }}",
		"JSON indent":            "{{ [1]|tojson(indent=100000000000) }}",
		"deep JSON indent":       "{{ [[[[[[[[1]]]]]]]]|tojson(indent='" + strings.Repeat(" ", 500000) + "'*100) }}",
		"replace":                grow("'a'", "ns.x|replace('a', 'aa')"),
		"replace nothing":        grow("'a'", "ns.x.replace('', 'a')"),
		"join":                   "{% set l = 'a' * 100000 %}{{ l|list|join(l) }}",
		"batch":                  "{{ [1]|batch(10000000000, 0)|list }}",
		"unique":                 "{{ range(100000)|unique|list|length }}",
		"attributes of a list":   loop("{{ [[[1]]]|map(attribute='0.0')|list }}"),
		"generators of one":      "{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = ns.x|map('string') %}{% endfor %}{{ ns.x|list }}",
		"set blocks":             grow("'a'", "ns.x") + loop("{% set y %}"+strings.Repeat("text ", 1000)+"{% endset %}"),
		"lengths":                long("'é' * 1000000", "x|length"),
		"white space stripped":   long("' ' * 2000000", "x.strip()"),
		"characters stripped":    "{% set x = 'a' * 100000 %}{{ x.strip('b' * 100000 ~ 'a') }}",
		"texts counted":          long("'a' * 2000000", "x.count('b')"),
		"texts searched":         long("'a' * 2000000", "x.find('b')"),
		"equal texts":            long("'a' * 1000000", "x == y"),
		"ordered texts":          long("'a' * 1000000", "x < y"),
		"texts in a list":        long("'a' * 1000000", "y in [x]"),
		"texts as keys":          long("'a' * 1000000", "{x: 1}[y]"),
		"texts as prefixes":      long("'a' * 1000000", "x.startswith((y, y, y))"),
		"dicts of long keys":     long("'a' * 1000000", "{x: 1} == {y: 1}"),
		"numbers in texts":       long("'1' * 1000000", "x|int"),
		"tests of texts":         long("'a' * 1000000", "x is lower"),
		"products":               "{% set x = 3 ** 20000 %}{% for a in range(100000) %}{% set z = x * x %}{% set z = x * x %}{% endfor %}",
		"powers":                 "{% for a in range(100000) %}{% set z = 3 ** 30000 %}{% endfor %}",
		"brackets":               "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}",
		"lists":                  "{{ " + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + " }}",
		"signs":                  "{{ " + strings.Repeat("-", 100000) + "1 }}",
		"nots":                   "{{ " + strings.Repeat("not ", 100000) + "1 }}",
		"a long sum":             "{{ 1" + strings.Repeat(" + 1", 100000) + " }}",
		"a long chain":           "{{ x" + strings.Repeat("|list", 100000) + " }}",
		"conditions":             "{{ " + strings.Repeat("1 if 0 else ", 50000) + "1 }}",
		"blocks":                 strings.Repeat("{% if 1 %}", 50000) + strings.Repeat("{% endif %}", 50000),
		"targets":                "{% for " + strings.Repeat("(", 100000) + "a" + strings.Repeat(")", 100000) + " in [] %}{% endfor %}",
		"a long template":        strings.Repeat("text", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := Parse(source)
			if err == nil { // a fiftieth of the limits, so that the test is quick
				_, err = tmpl.render(&evaluator{ctx: t.Context(), maxSteps: maxSteps / 50, maxText: maxText / 50}, nil)
			}
			require.ErrorIs(t, err, ErrLimit)
		})
	}
	if !testing.Short() {
		require.ErrorIs(t, render(t.Context(), loop("{{ a }}")), ErrLimit)
	}
}

func render(ctx context.Context, source string) error {
	tmpl, err := Parse(source)
	if err == nil {
		_, err = tmpl.Render(ctx, nil, time.Time{})
	}
	return err
}

// Whoever stops a run must not wait for a template.
func TestContextStopsRendering(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	require.ErrorIs(t, render(ctx, "{% for a in range(100000) %}{{ a }}{% endfor %}"), stopped)
}

// A prompt that changes with the day would make a resumed run another run, so the clock is never read.
func TestTimeMustBeGiven(t *testing.T) {
	require.ErrorContains(t, render(t.Context(), "{{ strftime_now('%Y') }}"), "strftime_now")
}

// Errors must lead to their place, and what a template raises must be told from what is wrong with it.
func TestErrorsNameTheLine(t *testing.T) {
	err := render(t.Context(), "{% if true %}\n\n{{ raise_exception('roles must alternate') }}{% endif %}")
	require.ErrorIs(t, err, ErrRaised)
	require.EqualError(t, err, "line 3: the template raised an exception: roles must alternate")
	err = render(t.Context(), "a\n{{ x.y }}")
	require.NotErrorIs(t, err, ErrRaised)
	require.EqualError(t, err, "line 2: UndefinedError: 'x' is undefined")
	require.ErrorContains(t, render(t.Context(), "a\n\n{% for %}"), "line 3: TemplateSyntaxError")
	require.ErrorContains(t, render(t.Context(), "a\n{{ x|nosuch }}"), `line 2: TemplateAssertionError: unknown or unsupported filter "nosuch"`)
	require.ErrorContains(t, render(t.Context(), "{% include 'x' %}"), `unknown or unsupported tag "include"`)
}
