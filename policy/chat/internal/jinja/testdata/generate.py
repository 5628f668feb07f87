#!/usr/bin/env python3
"""Renders small templates with Jinja2 3.1.6, in the environment that transformers 5.24 gives chat templates, for cases.jsonl.gz:
every operator, filter, test and method with operands of every type, and the syntax.

    pip install jinja2==3.1.6
    python generate.py
"""
import gzip
import itertools
import json
from datetime import datetime

import jinja2
import jinja2.ext
import jinja2.sandbox

VALUES = ["none", "true", "false", "0", "3", "-7", "12345678901234567890", "2.5", "-0.0", "1e16", "1e-7", "''", "'abc'", "' a b\\tc '",
          "'10'", "'É\\u2028ß'", "[]", "[3, 1, 2]", "['b', 'A', none]", "(1,)", "()", "{}", "{'b': 1, 'a': [2.0]}",
          "missing", "d.x", "[{'k': 1, 'n': 'x'}, {'k': 0}]", "range(3)", "d.items()", "d.keys()", "('<b>'|safe)", "ns", "f"]
HEAD = "{% set d = {'b': 1, 'a': 'x'} %}{% set ns = namespace(a=1) %}{% macro f(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}"


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime(2026, 3, 5, 9, 8, 7).strftime(f)
    return env


def expressions():
    for op, a, b in itertools.product(["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", ">=", "in", "not in"], VALUES, VALUES):
        if op == "**" and any(x in v for v in (a, b) for x in (".", "123456", "1e")) or op == "%" and ("'" in a) or "d." in a + b and op in ("-", "<", ">=", "=="):
            continue  # not supported
        yield a, b, f"a {op} b"
    for op, a in itertools.product(["-", "+", "not "], VALUES):
        yield a, "0", f"{op}a"
    for a in VALUES:
        for form in ["a", "a[0]", "a[-1]", "a['a']", "a.a", "a[none]", "a[missing]", "a[1:]", "a[::-1]", "a[:-1]", "a[5:1:-2]", "a[::0]", "a[true]", "a[:99999999999999999999]",
                     "a(1)", "a.items", "a.a.b", "a|list", "[a]", "(a,)", "{'v': a}", "a or 'other'", "a and 'other'",
                     "'yes' if a else 'no'", "[a] == [a]", "a in [a]", "f(a)", "f(1, b=a)", "[a, 1]|tojson", "{'k': a}|tojson(indent=2)"]:
            yield a, "0", form
    filters = ["tojson", "tojson(indent=2)", "tojson(indent='..', sort_keys=true)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "string", "safe",
               "escape", "e", "trim", "trim('a ')", "upper", "lower", "capitalize", "replace('a', 'bb')", "replace('', '-', 2)", "indent", "indent(2, true, true)",
               "join", "join(', ')", "join('-', attribute='k')", "length", "count", "default('z')", "d('z', true)", "int", "int(5)", "float", "abs", "round",
               "round(1)", "list", "items|list", "first", "last", "reverse|list", "reverse", "sort", "sort(reverse=true)", "sort(attribute='k')", "dictsort",
               "dictsort(by='value')", "unique|list", "min", "max", "sum", "batch(2)|list", "batch(2, 0)|list", "map('upper')|list", "map(attribute='k')|list",
               "map(attribute='n', default=5)|list", "select|list", "select('odd')|list", "reject('string')|list", "selectattr('k')|list",
               "selectattr('k', 'equalto', 1)|list", "rejectattr('n', 'defined')|list", "items", "nosuch"]
    for f, a in itertools.product(filters, VALUES):
        yield a, "0", f"a|{f}"
    tests = ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "escaped", "mapping", "callable", "iterable",
             "sequence", "lower", "upper", "odd", "even", "divisibleby 3", "in [3, 'abc']", "in('abc')", "sameas true", "sameas none", "eq 3", "equalto('abc')",
             "ne 3", "gt 2", "le 2.5", "lessthan 3", "filter", "test", "not defined", "not none", "nosuch"]
    for t, a in itertools.product(tests, VALUES):
        yield a, "0", f"a is {t}"
    strings = ["''", "'abcabc'", "' a b\\tc '", "'x,y,,z'", "'<think>\\nr\\n</think>\\n\\na'", "'É\\u2028ß\\x1f'", "'İΣ ΑΣ'", "'<b>'|safe", "'12'"]
    methods = ["strip()", "strip('a<>')", "lstrip()", "rstrip('\\n')", "lstrip(none)", "split()", "split(',')", "split(',', 1)", "split(none, 1)", "split('')",
               "split('</think>')[-1]", "rsplit(',', 1)", "rsplit(none, 1)", "rsplit('b')", "splitlines()", "partition('b')", "rpartition('b')", "partition('')",
               "startswith('a')", "startswith(('x', ' '))", "endswith('c')", "endswith(5)", "removeprefix('ab')", "removesuffix('bc')", "replace('b', 'XX')",
               "replace('b', 'X', 1)", "replace('', '.')", "upper()", "lower()", "capitalize()", "find('c')", "rfind('b')", "find('q')", "count('b')", "count('')",
               "join(['p', 'q'])", "join('pq')", "join([1])", "isspace()", "isalpha()", "isalnum()", "isdecimal()", "nosuch()", "strip(1)", "split(sep=',')",
               "__class__", "upper"]
    for s, m in itertools.product(strings, methods):
        yield s, "0", f"a.{m}"
    for m in ["get('b')", "get('q')", "get('q', 5)", "get()", "get(3)", "get([])", "keys()|list", "values()|list", "items()|list", "copy()", "pop('b')", "update({})",
              "items", "keys()|length", "items()[0]", "b", "q", "__class__", "clear()", "setdefault('x', 1)", "get('q').x", "items()|tojson"]:
        yield "d", "0", f"a.{m}"
        yield "d", "0", f"a['{m}']"
    for m in ["append(1)", "index(2)", "index(9)", "count(1)", "copy()", "pop()", "sort()", "nosuch", "extend([1])"]:
        yield "[1, 2, 1]", "0", f"a.{m}"
        yield "(1, 2)", "0", f"a.{m}"


TEMPLATES = [
    # white space control
    "  {% if true %}\n  a\n  {% endif %}\n b", "a  {%- if true -%}  b  {%- endif -%}  c", "a\n  {%+ if true %}b{% endif +%}\n c", "  {{ 1 }}\n  {{- 2 -}}\n 3",
    "a {# c #}\n b", "  {# c #}\nx", "x\n  {#- c -#}\n y", "{% if true %}\n\n x{% endif %}\n\n", "a\r\nb\r{% if true %}\r\nc{% endif %}\r\n", "a\n", "a\n\n", "\n", "",
    "  {% raw %}\n {{ x }} {% y %}\n  {% endraw %}\n z", "{% raw -%}  {{ x }}  {%- endraw %}  z", "{%- raw %} {# {% endraw -%}  z", "{% raw %}a", "{# a", "{{ 1", "{% if", "{{ }}", "{% %}",
    "{% if true %}{% if false %}\n  x\n{% endif %}\n  {% endif %}y", " \t{% if true %} \t{% endif %} \n", "a{%if true%}b{%endif%}c", "{{'}}'}}{{ \"%}\" }}", "{{ {'a': {'b': 1}} }}", "{{{'a': 1}.a}}",
    "{{ 'a' 'b' \"c\" }}", "{{ '\\n\\t\\x41\\u00e9\\101\\q\\'' }}", "{{ 'a\\\nb' }}", "{{ '\\x4' }}", "{{ \"it's\" }}", "{{ 1_000 }} {{ 0x1f }} {{ 0b11 }} {{ 1.5e3 }} {{ 00 }}", "{{ 1. }}", "{{ é }}", "{{ a$b }}",
    "{{ 'unclosed }}", "{{ [1, 2 }}", "{{ 1) }}", "{{ (1] }}", "text }} %} #} only", "{ {x} {", "{{-1}}", "{{+1}}", "{{- -1 -}}",
    # statements
    "{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}|{% endfor %}",
    "{% for x in [] %}a{% else %}b{% endfor %}", "{% for x in [1] %}{% break %}{% else %}b{% endfor %}", "{% for x in [1, 2] %}{% continue %}{% else %}b{% endfor %}",
    "{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in range(10) if x is odd %}{{ x }}{{ loop.index }}{{ loop.last }}{{ loop.length }};{% endfor %}", "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }} {% endfor %}",
    "{% for k, v in {'a': 1}|items %}{{ k }}{{ v }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in missing %}a{% else %}b{% endfor %}", "{% for c in 'héy' %}{{ c }}.{% endfor %}", "{% for x in {'q': 1} %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}", "{% for i in [1, 2] %}{% if y is defined %}stale{% endif %}{% set y = 1 %}{% endfor %}{{ y is defined }}",
    "{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "{% set ns = namespace(found=false) %}{% for i in [1, 2, 3] if not ns.found %}{{ i }}{% set ns.found = true %}{% endfor %}",
    "{% set x.y = 1 %}", "{% set d = {} %}{% set d.y = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set a = 1, %}{{ a }}", "{% set (a, b) = (1, 2) %}{{ b }}",
    "{% set x %} a {{ 1 }}\n{% endset %}[{{ x }}]", "{% set x | trim | upper %} a {% set y = 1 %}{% endset %}[{{ x }}]{{ y is defined }}", "{% set none = 1 %}", "{% set x = 1 if false %}[{{ x }}]{{ x is defined }}",
    "{% if 0 %}a{% elif missing %}b{% elif 'x' %}c{% else %}d{% endif %}", "{% if false %}{{ 1|nosuch }}{% endif %}a", "{% for i in [] %}{{ 1|nosuch }}{% endfor %}a", "{% if false %}{% for i in [] %}{{ 1|nosuch }}{% endfor %}{% endif %}a",
    "{{ 1|nosuch if false else 2 }}", "{{ 2 if true else 1|nosuch }}", "{% if 1|nosuch %}{% endif %}", "{% if false %}{{ 1 is nosuch }}{% endif %}a", "{% if true %}{{ 1 is nosuch }}{% endif %}a",
    "{% macro m(a, b='x', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(c=5, a=1) }}{{ m() }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "{{ m() }}{% macro m() %}{% endmacro %}", "{% macro m(n) %}{{ n }}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro m() %}{{ late }}{% endmacro %}{% set late = 5 %}{{ m() }}",
    "{% macro m() %}{% set inner = 1 %}{% endmacro %}{{ m() }}{{ inner is defined }}", "{% macro m() %} a {% endmacro %}{{ m()|trim }}{{ m() + 'b' }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m(a, b=[1, 2]|join(',')) %}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% for i in [1] %}{% macro m() %}{{ i }}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}", "{% for i in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% break %}", "{% continue %}",
    "{% generation %}a{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}", "{% generation %}a", "{% endif %}", "{% if true %}a", "{% for x in [] %}{% else %}", "{% unknown %}", "{% for x [1] %}{% endfor %}", "{% if true %}a{% endfor %}",
    "{% for x in [1] %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}{{ loop.depth }}{{ loop.nosuch }}{% endfor %}", "{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b') }}{% endfor %}", "{{ loop }}", "{{ loop.index }}",
    "{% for x in [1, 2] %}{% for y in [x] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for x in [[1, 2], [3]] %}{% set outer = loop %}{% for y in x %}{{ outer.index }}{{ y }}{% endfor %}{% endfor %}",
    "{% for x in [1, 2, 3] if x > 1 %}{{ loop.first }}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.revindex }};{% endfor %}", "{% for x in d.items() if true %}{{ x[0] }}{% endfor %}",
    # expressions
    "{{ 1 + 2 * 3 ** 2 ** 1 - 4 // 3 % 2 ~ 5 }}", "{{ 1 ~ 2 + 3 }}", "{{ 'a' ~ 1 ~ none ~ missing ~ 1.0 ~ true }}", "{{ -2 ** 2 }}", "{{ 2 ** -1 }}", "{{ 2 ** 100 }}", "{{ not 1 == 2 }}", "{{ not true and false or true }}", "{{ 1 < 2 < 3 }}", "{{ 1 < 3 < 2 }}",
    "{{ 1 if true }}{{ 1 if false }}{{ 1 if false else 2 if false else 3 }}", "{{ (1 if true else 2) + 1 }}", "{{ 1 in [1] and 2 not in [1] }}", "{{ -1|abs }}", "{{ (-1)|abs }}", "{{ -1.5|int }}", "{{ 'a' in 'abc' in ['abc'] }}",
    "{{ 1, 2 }}", "{{ () }}", "{{ (1) }}", "{{ [1, 2,] }}", "{{ {'a': 1,} }}", "{{ {1: 2} is defined }}" if False else "{{ 1 }}", "{{ [1, 2][0] }}", "{{ 'abc'[1] }}{{ 'abc'[-1] }}{{ 'abc'[9] }}", "{{ [[1]][0][0] }}", "{{ [1, 2].0 }}", "{{ d.b.c }}", "{{ d.q.c }}", "{{ d['q'] }}", "{{ d[missing] }}",
    "{{ missing.x }}", "{{ missing['x'] }}", "{{ missing() }}", "{{ missing + 1 }}", "{{ missing ~ 'a' }}", "{{ missing == missing2 }}", "{{ missing == none }}", "{{ missing|length }}", "{{ missing|tojson }}", "{{ [missing] }}", "{{ missing|default('a')|upper }}", "{{ missing < 1 }}", "{{ missing|trim ~ '.' }}",
    "{{ 'a' is string and 1 is number }}", "{{ 1 is not string }}", "{{ not 1 is string }}", "{{ 1 is defined is true }}", "{{ 5 is divisibleby 5 and true }}", "{{ 'x' is in ['x'] }}", "{{ 1 is sameas 1 == true }}" if False else "{{ 1 }}", "{{ 2 is eq 2 or false }}",
    "{{ dict(a=1, b=2) }}{{ dict({'a': 1}, b=3) }}{{ dict([('x', 1)]) }}", "{{ dict(1) }}", "{{ namespace(a=1).a }}", "{{ namespace({'a': 1}, b=2).b }}", "{{ namespace(a=1)['a'] }}", "{{ namespace().q is defined }}", "{{ range(5)|list }}{{ range(1, 10, 3)|list }}{{ range(3, 0, -1)|list }}{{ range(2) }}",
    "{{ range(100001)|length }}", "{{ range(100000)|length }}", "{{ range() }}", "{{ range('a') }}", "{{ range(1, 2, 0) }}", "{{ raise_exception('no') }}", "{{ raise_exception(5) }}", "{{ strftime_now('%Y-%m-%d %H:%M:%S %B %b %A %a %p %I %y %j %% %-d %-H %d %e') }}",
    "{{ '<b>'|safe + '<i>' }}", "{{ '<i>' + '<b>'|safe }}", "{{ ('<b>'|safe) ~ '<i>' }}", "{{ '<b>'|escape|escape }}", "{{ '<b>'|safe|string + '&' }}", "{{ '<b>'|safe|upper + '&' }}" if False else "{{ 1 }}", "{{ ['<b>'|safe] }}", "{{ f }}", "{{ f|length }}", "{{ f(1)(2) }}",
    "{{ 1e400 }}{{ -1e400 }}", "{{ 1e400|tojson }}", "{{ (1e400 - 1e400)|tojson }}", "{{ 1/0 }}", "{{ 1//0 }}", "{{ 1%0 }}", "{{ 7 // -2 }}{{ 7 % -2 }}{{ -7.5 // 2 }}{{ -7.5 % 2 }}", "{{ 0.1 + 0.2 }}", "{{ 10 / 5 }}", "{{ 2.0 * 3 }}", "{{ true + true }}", "{{ 3 == 3.0 }}{{ true == 1 }}{{ '1' == 1 }}",
    "{{ 9007199254740993 == 9007199254740992.0 }}{{ 9007199254740993 > 9007199254740992.0 }}", "{{ 'a' * 3 }}{{ 2 * 'ab' }}{{ [1] * 2 }}{{ 'a' * -1 }}", "{{ 'a' * 1.5 }}", "{{ [1] + (2,) }}", "{{ [1] < [2] }}{{ [1, 2] < [1] }}{{ (1, 'a') < (1, 'b') }}", "{{ [1] < ['a'] }}", "{{ {} < {} }}",
    "{{ messages|map(attribute='content')|join('|') }}", "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}", "{{ (messages|selectattr('role', 'equalto', 'user')|first).content }}", "{{ messages|selectattr('role', 'equalto', 'x')|first is defined }}", "{{ messages|selectattr('role', 'eq', 'x') and 'truthy' }}",
    "{{ messages|map(attribute='meta.k.0')|list }}", "{{ messages|map(attribute='nosuch.x')|list }}", "{{ messages[-1].content[:2] }}", "{{ messages[1:]|length }}", "{{ messages[0].meta.k[1] }}", "{{ messages|last }}", "{{ messages|tojson }}", "{{ messages[0].role.content }}",
    "{{ 'a' if messages else 'b' }}", "{{ f(*[1]) }}" if False else "{{ 1 }}", "{{ f(a=1, a=2) }}" if False else "{{ 1 }}", "{{ f(b=1, 2) }}", "{{ 1 2 }}", "{{ + }}", "{{ a. }}", "{{ a.1.b }}", "{{ not }}", "{{ if }}", "{{ 1 if }}", "{% set = 1 %}", "{% set 1 = 1 %}", "{{ | upper }}", "{{ 1 | }}", "{{ 1 is }}",
]
MESSAGES = [{"role": "user", "content": "Hé <b>", "meta": {"k": [1, 2.0]}}, {"role": "assistant", "content": "ok", "meta": {"k": "x"}}]


def rows():
    env = environment()
    for source in [HEAD + "{% set a, b = " + a + ", " + b + " %}{{ " + x + " }}" for a, b, x in expressions()] + TEMPLATES:
        row = {"template": source}
        try:
            row["expected"] = env.from_string(source).render(messages=json.loads(json.dumps(MESSAGES)))
        except Exception as e:  # noqa: BLE001
            row["error"] = f"{type(e).__name__}: {e}"
        if " at 0x" in row.get("expected", ""):
            continue  # an address in memory
        yield row


with open("cases.jsonl.gz", "wb") as f, gzip.GzipFile(filename="", mode="wb", fileobj=f, mtime=0, compresslevel=9) as g:
    for r in rows():
        g.write((json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n").encode())
