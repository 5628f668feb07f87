package reasoninggym

// formula is a formula of propositional logic.
type formula struct {
	operator    operator
	variable    int // its number, where there is no operator
	left, right *formula
}

type operator byte

// The operators in the order in which they bind.
const (
	opVariable operator = iota // none
	opNot
	opAnd
	opOr
	opImplies
	opIff
)

func (o operator) sign() string { return [...]string{"", "¬", "∧", "∨", "→", "↔"}[o] }

func (f *formula) append(b []byte, names []string) []byte {
	switch f.operator {
	case opVariable:
		return append(b, names[f.variable]...)
	case opNot:
		return f.left.append(append(b, opNot.sign()...), names)
	}
	b = f.left.append(append(b, '('), names)
	b = append(append(append(b, ' '), f.operator.sign()...), ' ')
	return append(f.right.append(b, names), ')')
}

// size is the number of operators and variables.
func (f *formula) size() int {
	switch f.operator {
	case opVariable:
		return 1
	case opNot:
		return 1 + f.left.size()
	}
	return 1 + f.left.size() + f.right.size()
}

// values are the truth values for 64 assignments: bit i of block b is for assignment 64b+i, in which variable j is true if bit j is.
func (f *formula) values(block int) uint64 {
	switch f.operator {
	case opVariable:
		return variableValues(f.variable, block)
	case opNot:
		return ^f.left.values(block)
	}
	left, right := f.left.values(block), f.right.values(block)
	switch f.operator {
	case opAnd:
		return left & right
	case opOr:
		return left | right
	case opImplies:
		return ^left | right
	}
	return ^(left ^ right)
}

// variableValues are the values of a variable in a block of 64 assignments, as in formula.values.
func variableValues(variable, block int) uint64 {
	if variable < len(firstVariables) {
		return firstVariables[variable]
	}
	return -uint64(block >> (variable - len(firstVariables)) & 1)
}

var firstVariables = [...]uint64{0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc, 0xf0f0f0f0f0f0f0f0, 0xff00ff00ff00ff00, 0xffff0000ffff0000, 0xffffffff00000000}

// truthTable is a set of assignments, as formula.values numbers them. Up to 6 variables have one block, in which the values repeat.
type truthTable []uint64

// newTruthTable is the set of all assignments.
func newTruthTable(vars int) truthTable {
	t := make(truthTable, 1<<max(0, vars-len(firstVariables)))
	for i := range t {
		t[i] = ^uint64(0)
	}
	return t
}

// restrict keeps the assignments that make f true.
func (t truthTable) restrict(f *formula) {
	for i, set := range t {
		if set != 0 {
			t[i] = set & f.values(i)
		}
	}
}

// implies says whether all assignments make f true.
func (t truthTable) implies(f *formula) bool {
	for i, set := range t {
		if set != 0 && set&^f.values(i) != 0 {
			return false
		}
	}
	return true
}

func tautology(f *formula, vars int) bool {
	for i := range 1 << max(0, vars-len(firstVariables)) {
		if ^f.values(i) != 0 {
			return false
		}
	}
	return true
}
