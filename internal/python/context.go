package python

// Context is decimal.Context with rounding half to even and the exponent limits and traps of Python's default: an invalid
// operation, a division by zero and an overflow raise, rounding does not.
type Context struct {
	Precision int // digits of a result
}

// DefaultContext is the context that Python starts with.
var DefaultContext = Context{Precision: 28}

const (
	maxAdjusted = 999999
	minAdjusted = -999999
)

// round is how every operation ends: the number with at most Precision digits.
func (c Context) round(d Decimal) Decimal {
	if d.kind == signallingNaN {
		raise("InvalidOperation", "operation on a signalling NaN")
	}
	if d.kind != finite {
		return d
	}
	tiny := minAdjusted - (c.Precision - 1) // the least exponent
	if d.digits.Sign() == 0 {
		d.exponent = min(max(d.exponent, tiny), maxAdjusted)
		return d
	}
	count := d.numDigits()
	if d.exponent+count-1 > maxAdjusted {
		raise("Overflow", "result is above 10^%d", maxAdjusted+1)
	}
	lowest := max(d.exponent+count-c.Precision, tiny)
	if d.exponent >= lowest {
		return d
	}
	d = d.rescaled(lowest)
	if d.numDigits() > c.Precision { // 999… became 1000…
		d.digits = d.digits.FloorDiv(NewInt(10))
		d.exponent++
	}
	if d.Adjusted() > maxAdjusted {
		raise("Overflow", "result is above 10^%d", maxAdjusted+1)
	}
	return d
}

// notFinite handles operands that are no numbers, of which the first NaN is the result.
func (c Context) notFinite(a, b Decimal) (result Decimal, done bool) {
	if a.kind <= infinite && b.kind <= infinite {
		return Decimal{}, false
	}
	for _, d := range []Decimal{a, b} {
		if d.kind == signallingNaN {
			raise("InvalidOperation", "operation on a signalling NaN")
		}
	}
	for _, d := range []Decimal{a, b} {
		if d.kind == quietNaN {
			return d, true
		}
	}
	return Decimal{}, false
}

// Add is a + b.
func (c Context) Add(a, b Decimal) Decimal {
	if result, done := c.notFinite(a, b); done {
		return result
	}
	switch {
	case a.kind == infinite:
		if b.kind == infinite && a.negative != b.negative {
			raise("InvalidOperation", "-INF + INF")
		}
		return a
	case b.kind == infinite:
		return b
	case a.IsZero() && b.IsZero():
		return c.round(Decimal{negative: a.negative && b.negative, exponent: min(a.exponent, b.exponent)})
	case a.IsZero():
		return c.round(c.towards(b, a.exponent))
	case b.IsZero():
		return c.round(c.towards(a, b.exponent))
	}
	a, b = c.align(a, b)
	sum := signed(a).Add(signed(b))
	return c.round(NewDecimal(sum, a.exponent))
}

func signed(d Decimal) Int {
	if d.negative {
		return d.digits.Neg()
	}
	return d.digits
}

// towards lowers the exponent to that of a zero that is added, as far as the precision allows.
func (c Context) towards(d Decimal, exponent int) Decimal {
	exponent = max(exponent, d.exponent+d.numDigits()-c.Precision-1)
	if exponent >= d.exponent {
		return d
	}
	return d.rescaled(exponent)
}

// align gives two numbers other than 0 one exponent. Of a number that is too small to count but for rounding, a 1 is left.
func (c Context) align(a, b Decimal) (Decimal, Decimal) {
	if a.exponent < b.exponent {
		b, a = c.align(b, a)
		return a, b
	}
	least := a.exponent + min(-1, a.numDigits()-c.Precision-2)
	if b.Adjusted() < least {
		b.digits, b.exponent = NewInt(1), least
	}
	a.digits, a.exponent = a.scaled(b.exponent), b.exponent
	return a, b
}

// Sub is a - b.
func (c Context) Sub(a, b Decimal) Decimal {
	if b.kind <= infinite {
		b.negative = !b.negative
	}
	return c.Add(a, b)
}

// Mul is a * b.
func (c Context) Mul(a, b Decimal) Decimal {
	if result, done := c.notFinite(a, b); done {
		return result
	}
	d := Decimal{negative: a.negative != b.negative}
	if a.kind == infinite || b.kind == infinite {
		if a.IsZero() || b.IsZero() {
			raise("InvalidOperation", "0 * INF")
		}
		d.kind = infinite
		return d
	}
	d.digits, d.exponent = a.digits.Mul(b.digits), a.exponent+b.exponent
	return c.round(d)
}

// Div is a / b.
func (c Context) Div(a, b Decimal) Decimal {
	if result, done := c.notFinite(a, b); done {
		return result
	}
	d := Decimal{negative: a.negative != b.negative}
	switch {
	case a.kind == infinite && b.kind == infinite:
		raise("InvalidOperation", "INF / INF")
	case a.kind == infinite:
		d.kind = infinite
		return d
	case b.kind == infinite:
		d.exponent = minAdjusted - (c.Precision - 1)
		return d
	case b.IsZero() && a.IsZero():
		raise("InvalidOperation", "0 / 0")
	case b.IsZero():
		raise("DivisionByZero", "division by zero")
	}
	ideal := a.exponent - b.exponent
	if a.IsZero() {
		d.exponent = ideal
		return c.round(d)
	}
	if k := powerOfTen(b.digits); k >= 0 { // exact: only the exponent changes
		d.digits, d.exponent = a.digits, ideal-k
		d = d.stripZeros(ideal)
		return c.round(d)
	}
	// One digit more than is kept, and a last one that rounding sees if something is left.
	shift := b.numDigits() - a.numDigits() + c.Precision + 1
	above, below := a.digits, b.digits
	if shift >= 0 {
		above = above.Mul(PowerOfTen(shift))
	} else {
		below = below.Mul(PowerOfTen(-shift))
	}
	q, rest := above.DivMod(below)
	d.digits, d.exponent = q, ideal-shift
	switch {
	case rest.Sign() == 0:
		d = d.stripZeros(ideal)
	case q.Mod(NewInt(5)).Sign() == 0:
		d.digits = q.Add(NewInt(1))
	}
	return c.round(d)
}

// powerOfTen is the k of n = 10^k, or -1. It looks at int64s only.
func powerOfTen(n Int) int {
	for k, ten := range tens {
		if n.big == nil && n.small == ten {
			return k
		}
	}
	return -1
}

// stripZeros drops zeros at the end as long as the exponent is below another.
func (d Decimal) stripZeros(exponent int) Decimal {
	for d.exponent < exponent {
		tenth, last := d.digits.DivMod(NewInt(10))
		if last.Sign() != 0 {
			break
		}
		d.digits = tenth
		d.exponent++
	}
	return d
}

// Quantize is d.quantize(Decimal("1e<exponent>")): d rounded to an exponent. It raises an InvalidOperation if the result
// needs more digits than the context has.
func (c Context) Quantize(d Decimal, exponent int) Decimal {
	if result, done := c.notFinite(d, Decimal{}); done {
		return result
	}
	if d.kind == infinite {
		raise("InvalidOperation", "quantize with one INF")
	}
	if exponent > maxAdjusted || exponent < minAdjusted-(c.Precision-1) {
		raise("InvalidOperation", "target exponent out of bounds in quantize")
	}
	if !d.IsZero() && (d.Adjusted() > maxAdjusted || d.Adjusted()-exponent+1 > c.Precision) {
		raise("InvalidOperation", "quantize result has too many digits for current context")
	}
	if d.IsZero() {
		d.exponent = exponent
		return d
	}
	d = d.rescaled(exponent)
	if d.numDigits() > c.Precision || d.Adjusted() > maxAdjusted && !d.IsZero() {
		raise("InvalidOperation", "quantize result has too many digits for current context")
	}
	return d
}
