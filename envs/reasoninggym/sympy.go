package reasoninggym

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

// sympyValue is what an expression is worth: an exact number, or the nearest float64 where it is none or too large.
type sympyValue struct {
	exact       *big.Rat // nil where only approximate is known
	approximate float64
}

// Float64 is float(v).
func (v sympyValue) Float64() float64 {
	if v.exact == nil {
		return v.approximate
	}
	f, _ := v.exact.Float64()
	return f
}

func (v sympyValue) isZero() bool {
	return v.exact != nil && v.exact.Sign() == 0 || v.exact == nil && v.approximate == 0
}

// integer returns an exact whole number, or else nil.
func (v sympyValue) integer() *big.Int {
	if v.exact == nil || !v.exact.IsInt() {
		return nil
	}
	return v.exact.Num()
}

// largestBits bounds exact numbers: a float64 has a value up to 2^1024, and the numbers of answers are shorter.
const largestBits = 4096

func exactly(r *big.Rat) sympyValue {
	if r.Num().BitLen() > largestBits || r.Denom().BitLen() > largestBits {
		f, _ := r.Float64()
		return sympyValue{approximate: f}
	}
	return sympyValue{exact: r}
}

func approximately(f float64) sympyValue { return sympyValue{approximate: f} }

func whole(n *big.Int) sympyValue { return exactly(new(big.Rat).SetInt(n)) }

// Limits of CPython's parser. Numbers stand in parentheses of their own there.
const (
	sympyParentheses = 199
	sympyRecursion   = 2900
	sympyLength      = 20_000 // is ours
)

// evaluateSympy is float(parse_expr(text)) of sympy as far as the text is an expression in numbers with the operators of Python,
// factorials, and the functions and constants below. It runs nothing, and takes time in proportion to the text. The error is
// python's: any other text has no value here, even if sympy finds one.
func evaluateSympy(text string) (value sympyValue, err error) {
	defer python.Catch(&err)
	text = python.Strip(text)
	if len(text) > sympyLength {
		panic(noValue("text of %d bytes", len(text)))
	}
	if inner, ok := stringLiteral(text); ok { // a string is what float makes of it
		f, err := python.ParseFloat(inner)
		return approximately(f), err
	}
	p := sympyParser{text: text}
	p.space()
	value = p.comparison()
	if p.at < len(p.text) {
		panic(noValue("%q", p.text[p.at]))
	}
	return value, nil
}

// noValue is the error for what sympy or this parser does not evaluate.
func noValue(format string, args ...any) python.Error {
	return python.Error{Type: "SyntaxError", Message: "no value: " + fmt.Sprintf(format, args...)}
}

func stringLiteral(text string) (inner string, ok bool) {
	if len(text) < 2 || text[0] != '"' && text[0] != '\'' || text[len(text)-1] != text[0] {
		return "", false
	}
	inner = text[1 : len(text)-1]
	return inner, !strings.ContainsAny(inner, "\\\n"+text[:1])
}

type sympyParser struct {
	text        string
	at          int
	parentheses int
	depth       int
}

// space moves over what may stand between tokens.
func (p *sympyParser) space() {
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\f':
			p.at++
		case p.parentheses > 0 && rest[0] == '\n', p.parentheses > 0 && strings.HasPrefix(rest, "\r\n"):
			p.at += 1 + strings.IndexByte(rest, '\n')
		case strings.HasPrefix(rest, "\\\n"):
			p.at += 2
		case rest[0] == '#':
			line, _, _ := strings.Cut(rest, "\n")
			p.at += len(line)
		default:
			return
		}
	}
}

// take moves over an operator. sympy puts the tokens together again without the white space between operators, so that * * is **.
func (p *sympyParser) take(operator string) bool {
	start := p.at
	for i := range len(operator) {
		if p.at == len(p.text) || p.text[p.at] != operator[i] {
			p.at = start
			return false
		}
		p.at++
		p.space()
	}
	return true
}

// takeOne takes the first of some operators that is there.
func (p *sympyParser) takeOne(operators ...string) string {
	for _, o := range operators {
		if p.take(o) {
			return o
		}
	}
	return ""
}

// comparison is == and !=, all of which must hold; sympy has no value for the others.
func (p *sympyParser) comparison() sympyValue {
	value := p.or()
	holds, compared := true, false
	for {
		op := p.takeOne("==", "!=")
		if op == "" {
			break
		}
		next := p.or()
		same := value.exact == nil && next.exact == nil && value.approximate == next.approximate ||
			value.exact != nil && next.exact != nil && value.exact.Cmp(next.exact) == 0
		holds, compared, value = holds && same == (op == "=="), true, next
	}
	if compared {
		value = whole(big.NewInt(0))
		if holds {
			value = whole(big.NewInt(1))
		}
	}
	return value
}

func (p *sympyParser) or() sympyValue {
	value := p.xor()
	for p.take("|") {
		value = onIntegers(value, p.xor(), (*big.Int).Or)
	}
	return value
}

func (p *sympyParser) xor() sympyValue {
	value := p.and()
	for p.take("^") {
		value = onIntegers(value, p.and(), (*big.Int).Xor)
	}
	return value
}

func (p *sympyParser) and() sympyValue {
	value := p.shift()
	for p.take("&") {
		value = onIntegers(value, p.shift(), (*big.Int).And)
	}
	return value
}

func (p *sympyParser) shift() sympyValue {
	value := p.sum()
	for {
		switch p.takeOne("<<", ">>") {
		case "<<":
			value = onIntegers(value, p.sum(), func(z, a, n *big.Int) *big.Int {
				if n.Sign() < 0 || a.Sign() != 0 && n.Cmp(big.NewInt(largestBits)) > 0 {
					panic(noValue("shift by %d bits", n.BitLen()))
				}
				return z.Lsh(a, uint(n.Uint64()))
			})
		case ">>":
			value = onIntegers(value, p.sum(), func(z, a, n *big.Int) *big.Int {
				if n.Sign() < 0 || !n.IsUint64() {
					panic(noValue("shift by %d bits", n.BitLen()))
				}
				return z.Rsh(a, uint(min(n.Uint64(), largestBits)))
			})
		default:
			return value
		}
	}
}

// onIntegers is for operators that only integers have.
func onIntegers(a, b sympyValue, operate func(z, a, b *big.Int) *big.Int) sympyValue {
	x, y := a.integer(), b.integer()
	if x == nil || y == nil {
		panic(noValue("operator of integers between other numbers"))
	}
	return whole(operate(new(big.Int), x, y))
}

func (p *sympyParser) sum() sympyValue {
	value := p.product()
	for {
		switch p.takeOne("+", "-") {
		case "+":
			value = combine(value, p.product(), (*big.Rat).Add, func(a, b float64) float64 { return a + b })
		case "-":
			value = minus(value, p.product())
		default:
			return value
		}
	}
}

func combine(a, b sympyValue, exact func(z, a, b *big.Rat) *big.Rat, approximate func(a, b float64) float64) sympyValue {
	if a.exact != nil && b.exact != nil {
		return exactly(exact(new(big.Rat), a.exact, b.exact))
	}
	return approximately(approximate(a.Float64(), b.Float64()))
}

func minus(a, b sympyValue) sympyValue {
	return combine(a, b, (*big.Rat).Sub, func(a, b float64) float64 { return a - b })
}

func times(a, b sympyValue) sympyValue {
	return combine(a, b, (*big.Rat).Mul, func(a, b float64) float64 { return a * b })
}

func (p *sympyParser) product() sympyValue {
	value := p.unary()
	for {
		switch {
		case p.take("//"):
			value = floorDivide(value, p.unary())
		case p.take("/"):
			value = divide(value, p.unary())
		case p.take("%"):
			value = modulo(value, p.unary())
		case p.take("*"): // unary has taken **
			value = times(value, p.unary())
		default:
			return value
		}
	}
}

// divide has NaN for 0/0. Of any other number by 0, sympy makes a complex infinity, which is no float.
func divide(a, b sympyValue) sympyValue {
	if b.isZero() {
		if a.isZero() || math.IsNaN(a.Float64()) {
			return approximately(math.NaN())
		}
		panic(noValue("division by zero"))
	}
	return combine(a, b, (*big.Rat).Quo, func(a, b float64) float64 { return a / b })
}

func floorDivide(a, b sympyValue) sympyValue {
	if b.isZero() {
		panic(noValue("division by zero"))
	}
	return floor(divide(a, b))
}

func floor(v sympyValue) sympyValue {
	if v.exact == nil {
		return truncated(math.Floor(v.approximate))
	}
	quotient, _ := new(big.Int).DivMod(v.exact.Num(), v.exact.Denom(), new(big.Int)) // the divisor is positive
	return whole(quotient)
}

// truncated is a whole number as sympy's Integer.
func truncated(f float64) sympyValue {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return approximately(f)
	}
	n, _ := big.NewFloat(f).Int(nil)
	return whole(n)
}

func negate(v sympyValue) sympyValue {
	if v.exact == nil {
		return approximately(-v.approximate)
	}
	return sympyValue{exact: new(big.Rat).Neg(v.exact)}
}

// deeper counts what Python's parser has on its stack.
func (p *sympyParser) deeper(by int) {
	if p.depth += by; p.depth > sympyRecursion {
		panic(noValue("too deep"))
	}
}

func (p *sympyParser) unary() sympyValue {
	p.deeper(1)
	defer p.deeper(-1)
	switch p.takeOne("+", "-", "~") {
	case "+":
		return p.unary()
	case "-":
		return negate(p.unary())
	case "~":
		return onIntegers(p.unary(), whole(new(big.Int)), func(z, a, _ *big.Int) *big.Int { return z.Not(a) })
	}
	value := p.factorials()
	if p.take("**") {
		value = power(value, p.unary())
	}
	return value
}

// power is exact for integer exponents, as far as the result is not too large.
func power(base, exponent sympyValue) sympyValue {
	n := exponent.integer()
	switch {
	case n != nil && base.exact != nil && (n.Sign() >= 0 || !base.isZero()) && powerFits(base.exact, n):
		k := new(big.Int).Abs(n)
		num, den := new(big.Int).Exp(base.exact.Num(), k, nil), new(big.Int).Exp(base.exact.Denom(), k, nil)
		if n.Sign() < 0 {
			num, den = den, num
		}
		return exactly(new(big.Rat).SetFrac(num, den))
	case base.isZero() && exponent.Float64() < 0:
		panic(noValue("power of zero"))
	}
	x, y := base.Float64(), exponent.Float64()
	f := math.Pow(x, y)
	if math.IsNaN(f) && !math.IsNaN(x) && !math.IsNaN(y) {
		panic(noValue("complex power"))
	}
	return approximately(f)
}

// powerFits says whether the power has at most about largestBits bits. Those of 0, 1 and -1 always do.
func powerFits(base *big.Rat, n *big.Int) bool {
	size := max(base.Num().BitLen(), base.Denom().BitLen())
	return size <= 1 || n.IsInt64() && int64(size) <= largestBits && max(n.Int64(), -n.Int64()) <= largestBits/int64(size-1)
}

// factorials are ! and !! behind an operand, without white space between.
func (p *sympyParser) factorials() sympyValue {
	value := p.operand()
	count := 0
	for ; strings.HasPrefix(p.text[p.at:], "!") && !strings.HasPrefix(p.text[p.at:], "!="); p.at++ {
		count++
	}
	p.space()
	switch count {
	case 0:
		return value
	case 1, 2:
		return factorial(value, count)
	}
	panic(noValue("%d exclamation marks", count))
}

// factorial multiplies every number, or every second, down from n.
func factorial(v sympyValue, step int) sympyValue {
	n := v.integer()
	switch f := v.Float64(); {
	case n == nil && step == 1 && (f > 0 || f != math.Trunc(f)):
		return approximately(math.Gamma(f + 1))
	case n == nil || n.Sign() < 0:
		panic(noValue("factorial of %v", f))
	case n.Cmp(big.NewInt(1000)) > 0:
		return approximately(math.Inf(1))
	}
	product := big.NewInt(1)
	for i := n.Int64(); i > 1; i -= int64(step) {
		product.Mul(product, big.NewInt(i))
	}
	return whole(product)
}

// operand is a number, a constant, a call or parentheses. No white space behind it is read.
func (p *sympyParser) operand() sympyValue {
	rest := p.text[p.at:]
	switch {
	case rest == "":
		panic(noValue("the end"))
	case rest[0] == '(':
		list, comma := p.list()
		if len(list) != 1 || comma {
			panic(noValue("tuple"))
		}
		return list[0]
	case isASCIIDigit(rest[0]) || rest[0] == '.':
		return p.number()
	}
	end := 0
	for end < len(rest) && (rest[end] == '_' || isASCIILetter(rest[end]) || isASCIIDigit(rest[end])) {
		end++
	}
	name := rest[:end]
	if value, ok := sympyConstants[name]; ok {
		p.at += end
		return value
	}
	f, ok := sympyFunctions[name]
	if !ok {
		panic(noValue("name %q", name))
	}
	p.at += end
	p.space()
	if !strings.HasPrefix(p.text[p.at:], "(") {
		panic(noValue("function"))
	}
	arguments, _ := p.list()
	if len(arguments) < f.least || len(arguments) > f.most {
		panic(noValue("%d arguments", len(arguments)))
	}
	return f.call(arguments)
}

// list is what stands in parentheses, between commas, and whether there is one behind the last value.
func (p *sympyParser) list() (values []sympyValue, comma bool) {
	if p.parentheses++; p.parentheses > sympyParentheses {
		panic(noValue("too many parentheses"))
	}
	p.at++
	p.space()
	for {
		values = append(values, p.comparison())
		comma = p.take(",")
		if !comma || strings.HasPrefix(p.text[p.at:], ")") {
			break
		}
	}
	p.parentheses--
	if !strings.HasPrefix(p.text[p.at:], ")") {
		panic(noValue("no parenthesis"))
	}
	p.at++
	return values, comma
}

func isASCIIDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isASCIILetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// number reads what Python's tokenizer does: 1_000, 0x1F, 0b11, 0o17, 1.5, .5, 2., 1e-3, but 007 only with a point.
func (p *sympyParser) number() sympyValue {
	rest := p.text[p.at:]
	if len(rest) > 2 && rest[0] == '0' {
		for _, base := range []struct{ letter, digits string }{{"xX", "0123456789abcdefABCDEF"}, {"bB", "01"}, {"oO", "01234567"}} {
			if strings.IndexByte(base.letter, rest[1]) < 0 {
				continue
			}
			start := 2
			if rest[2] == '_' {
				start++
			}
			return p.integer(rest[:start+digitRun(rest[start:], base.digits)])
		}
	}
	const decimal = "0123456789"
	end := digitRun(rest, decimal)
	float := false
	if end < len(rest) && rest[end] == '.' {
		fraction := digitRun(rest[end+1:], decimal)
		if end+fraction == 0 {
			panic(noValue("point"))
		}
		end, float = end+1+fraction, true
	}
	if end < len(rest) && rest[end]|0x20 == 'e' {
		sign := end + 1
		if sign < len(rest) && (rest[sign] == '+' || rest[sign] == '-') {
			sign++
		}
		if n := digitRun(rest[sign:], decimal); n > 0 {
			end, float = sign+n, true
		}
	}
	f, err := python.ParseFloat(rest[:end])
	if err != nil {
		panic(err)
	}
	if end < len(rest) && rest[end]|0x20 == 'j' && f == 0 { // other imaginary numbers have no float
		p.at += end + 1
		return whole(new(big.Int))
	}
	if !float {
		return p.integer(rest[:end])
	}
	p.at += end
	return approximately(f)
}

func (p *sympyParser) integer(text string) sympyValue {
	n, err := python.ParseInt(text, 0)
	if err != nil {
		panic(err)
	}
	p.at += len(text)
	return whole(n.Big())
}

// digitRun is the length of digits with single underscores between them.
func digitRun(s, digits string) int {
	for i := range len(s) {
		if strings.IndexByte(digits, s[i]) >= 0 {
			continue
		}
		if s[i] == '_' && i > 0 && s[i-1] != '_' && i+1 < len(s) && strings.IndexByte(digits, s[i+1]) >= 0 {
			continue
		}
		return i
	}
	return len(s)
}

var sympyConstants = map[string]sympyValue{
	"pi": approximately(math.Pi), "E": approximately(math.E), "oo": approximately(math.Inf(1)), "nan": approximately(math.NaN()),
	"True": whole(big.NewInt(1)), "False": whole(new(big.Int)),
}

type sympyFunction struct {
	least, most int // arguments
	call        func(arguments []sympyValue) sympyValue
}

var sympyFunctions = func() map[string]sympyFunction {
	one := func(f func(v sympyValue) sympyValue) sympyFunction {
		return sympyFunction{1, 1, func(a []sympyValue) sympyValue { return f(a[0]) }}
	}
	two := func(f func(v, w sympyValue) sympyValue) sympyFunction {
		return sympyFunction{2, 2, func(a []sympyValue) sympyValue { return f(a[0], a[1]) }}
	}
	inFloat64 := func(f func(float64) float64) sympyFunction {
		return one(func(v sympyValue) sympyValue { return approximately(f(v.Float64())) })
	}
	choose := func(sign float64) sympyFunction {
		return sympyFunction{1, math.MaxInt, func(a []sympyValue) sympyValue {
			best := a[0]
			for _, v := range a {
				if math.IsNaN(v.Float64()) {
					panic(noValue("nan is not comparable"))
				}
				if sign*v.Float64() > sign*best.Float64() {
					best = v
				}
			}
			return best
		}}
	}
	logarithm := sympyFunction{1, 2, func(a []sympyValue) sympyValue {
		f := math.Log(positive(a[0]))
		if len(a) == 2 {
			return divide(approximately(f), approximately(math.Log(positive(a[1]))))
		}
		return approximately(f)
	}}
	absolute := one(func(v sympyValue) sympyValue {
		if v.Float64() < 0 {
			return negate(v)
		}
		return v
	})
	raised := two(power)
	return map[string]sympyFunction{
		"abs": absolute, "Abs": absolute, "max": choose(1), "Max": choose(1), "min": choose(-1), "Min": choose(-1), "pow": raised, "Pow": raised,
		"sqrt": one(squareRoot), "factorial": one(func(v sympyValue) sympyValue { return factorial(v, 1) }),
		"floor": one(floor), "ceiling": one(func(v sympyValue) sympyValue { return negate(floor(negate(v))) }), "round": one(roundHalfEven),
		"exp": inFloat64(math.Exp), "log": logarithm, "ln": logarithm, "sin": inFloat64(math.Sin), "cos": inFloat64(math.Cos), "tan": inFloat64(math.Tan),
		"Integer": one(func(v sympyValue) sympyValue {
			if v.Float64() < 0 {
				return negate(floor(negate(v)))
			}
			return floor(v)
		}),
		"Rational": two(divide), "Mod": two(modulo),
	}
}()

func positive(v sympyValue) float64 {
	f := v.Float64()
	if f <= 0 {
		panic(noValue("logarithm of %v", f))
	}
	return f
}

func squareRoot(v sympyValue) sympyValue {
	if v.Float64() < 0 {
		panic(noValue("complex root"))
	}
	if v.exact != nil {
		num, den := new(big.Int).Sqrt(v.exact.Num()), new(big.Int).Sqrt(v.exact.Denom())
		root := new(big.Rat).SetFrac(num, den)
		if new(big.Rat).Mul(root, root).Cmp(v.exact) == 0 {
			return exactly(root)
		}
	}
	return approximately(math.Sqrt(v.Float64()))
}

func roundHalfEven(v sympyValue) sympyValue {
	if v.exact == nil {
		return truncated(math.RoundToEven(v.approximate))
	}
	down := floor(v)
	rest := new(big.Rat).Sub(v.exact, down.exact)
	if c := rest.Cmp(big.NewRat(1, 2)); c > 0 || c == 0 && down.exact.Num().Bit(0) == 1 {
		return whole(new(big.Int).Add(down.exact.Num(), big.NewInt(1)))
	}
	return down
}

// modulo is what floorDivide leaves, which has the sign of the divisor.
func modulo(a, b sympyValue) sympyValue {
	return minus(a, times(b, floorDivide(a, b)))
}
