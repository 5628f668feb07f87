package python

import "iter"

// Hasher is a set element that knows its Python hash; HashTuple and the other Hash functions make it.
type Hasher interface{ Hash() int64 }

// Set is set of CPython 3.11 (Objects/setobject.c): it iterates in the same order after the same operations. Elements are
// strings, ints, Chars, pairs [2]int, triples [3]int (tuples of ints), or comparable types with a Hash method. Make one by NewSet.
type Set[T comparable] struct {
	table  []entry[T] // a power of two long
	used   int        // active entries
	fill   int        // active and deleted entries
	finger int        // where Pop looks next
	hash   func(T) int64
	small  [minSize]entry[T] // the first table
}

type entry[T comparable] struct {
	hash  int64 // first, so that an entry of a small key takes 16 bytes
	key   T
	state state
}

type state uint8

const (
	free state = iota
	active
	deleted
)

const (
	minSize      = 8
	linearProbes = 9
	perturbShift = 5
)

// NewSet is set(items).
func NewSet[T comparable](items ...T) *Set[T] {
	s := newSet(hasher[T]())
	s.Add(items...)
	return s
}

func newSet[T comparable](hash func(T) int64) *Set[T] {
	s := &Set[T]{hash: hash}
	s.table = s.small[:]
	return s
}

func hasher[T comparable]() func(T) int64 {
	var f any
	switch any(*new(T)).(type) {
	case Hasher:
		return func(key T) int64 { return any(key).(Hasher).Hash() }
	case string:
		f = HashString
	case int:
		f = HashInt
	case [2]int:
		f = func(t [2]int) int64 { return HashTuple(HashInt(t[0]), HashInt(t[1])) }
	case [3]int:
		f = func(t [3]int) int64 { return HashTuple(HashInt(t[0]), HashInt(t[1]), HashInt(t[2])) }
	}
	hash, ok := f.(func(T) int64)
	if !ok {
		raise("TypeError", "unhashable type: %T", *new(T))
	}
	return hash
}

// Len is len(s).
func (s *Set[T]) Len() int { return s.used }

// All iterates in Python's order. The set must not change meanwhile.
func (s *Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range s.table {
			if e := &s.table[i]; e.state == active && !yield(e.key) {
				return
			}
		}
	}
}

// List is list(s).
func (s *Set[T]) List() []T {
	list := make([]T, 0, s.used)
	for key := range s.All() {
		list = append(list, key)
	}
	return list
}

// Contains is key in s.
func (s *Set[T]) Contains(key T) bool { return s.has(key, s.hash(key)) }

// Add adds one key after the other.
func (s *Set[T]) Add(keys ...T) {
	for _, key := range keys {
		s.insert(key, s.hash(key))
	}
}

// Discard removes a key and says whether it was there.
func (s *Set[T]) Discard(key T) bool { return s.remove(key, s.hash(key)) }

// Pop is pop(): it removes and returns an element, the first in order unless elements were popped before.
func (s *Set[T]) Pop() T {
	if s.used == 0 {
		raise("KeyError", "pop from an empty set")
	}
	i := s.finger & (len(s.table) - 1)
	for s.table[i].state != active {
		i = (i + 1) & (len(s.table) - 1)
	}
	key := s.table[i].key
	s.table[i] = entry[T]{state: deleted}
	s.used--
	s.finger = i + 1
	return key
}

// Clone is set(s), whose order may differ from that of s.
func (s *Set[T]) Clone() *Set[T] {
	c := newSet(s.hash)
	c.Update(s)
	return c
}

// find returns the key's entry, or else the free one where the search ended and the last deleted one that it passed, if any.
func (s *Set[T]) find(key T, hash int64) (e, passed *entry[T]) {
	mask := len(s.table) - 1
	i, perturb := int(hash)&mask, uint64(hash)
	for {
		last := i
		if i+linearProbes <= mask {
			last += linearProbes
		}
		for j := i; j <= last; j++ {
			switch e := &s.table[j]; {
			case e.state == free || e.state == active && e.hash == hash && e.key == key:
				return e, passed
			case e.state == deleted:
				passed = e
			}
		}
		perturb >>= perturbShift
		i = (i*5 + 1 + int(perturb)) & mask
	}
}

// insert adds a key that may be there already. A deleted entry on the way is used again and counts as filled already.
func (s *Set[T]) insert(key T, hash int64) {
	e, passed := s.find(key, hash)
	switch {
	case e.state == active:
	case passed != nil:
		*passed = entry[T]{hash, key, active}
		s.used++
	default:
		*e = entry[T]{hash, key, active}
		s.filled()
	}
}

// filled counts one more entry that is no longer free, and makes room for the next.
func (s *Set[T]) filled() {
	s.used++
	s.fill++
	if s.fill*5 >= (len(s.table)-1)*3 {
		s.resize(s.grown())
	}
}

// place puts an entry whose key is not there into a table without deleted entries that has room for it.
func (s *Set[T]) place(new entry[T]) {
	mask := len(s.table) - 1
	i, perturb := int(new.hash)&mask, uint64(new.hash)
	for {
		last := i
		if i+linearProbes <= mask {
			last += linearProbes
		}
		for j := i; j <= last; j++ {
			if e := &s.table[j]; e.state == free {
				*e = new
				return
			}
		}
		perturb >>= perturbShift
		i = (i*5 + 1 + int(perturb)) & mask
	}
}

func (s *Set[T]) has(key T, hash int64) bool {
	e, _ := s.find(key, hash)
	return e.state == active
}

func (s *Set[T]) grown() int {
	if s.used > 50000 {
		return s.used * 2
	}
	return s.used * 4
}

func (s *Set[T]) remove(key T, hash int64) bool {
	e, _ := s.find(key, hash)
	if e.state != active {
		return false
	}
	*e = entry[T]{state: deleted}
	s.used--
	return true
}

// resize moves the active entries to a table with more than atLeast places.
func (s *Set[T]) resize(atLeast int) {
	size := minSize
	for size <= atLeast {
		size <<= 1
	}
	old := s.table
	s.table = make([]entry[T], size)
	s.fill = s.used
	for i := range old {
		if old[i].state == active {
			s.place(old[i])
		}
	}
}

// Update is s |= t.
func (s *Set[T]) Update(t *Set[T]) {
	if t == s || t.used == 0 {
		return
	}
	if (s.fill+t.used)*5 >= (len(s.table)-1)*3 {
		s.resize((s.used + t.used) * 2)
	}
	if s.fill == 0 && len(s.table) == len(t.table) && t.fill == t.used {
		copy(s.table, t.table)
		s.fill, s.used = t.fill, t.used
		return
	}
	if s.fill == 0 { // no check for growth: there is room
		s.fill, s.used = t.used, t.used
		for i := range t.table {
			if e := &t.table[i]; e.state == active {
				s.place(*e)
			}
		}
		return
	}
	for i := range t.table {
		if e := &t.table[i]; e.state == active {
			s.insert(e.key, e.hash)
		}
	}
}

// Union is s | t.
func (s *Set[T]) Union(t *Set[T]) *Set[T] {
	u := s.Clone()
	u.Update(t)
	return u
}

// Intersection is s & t.
func (s *Set[T]) Intersection(t *Set[T]) *Set[T] {
	if t.used > s.used {
		s, t = t, s
	}
	u := newSet(s.hash)
	for i := range t.table {
		if e := &t.table[i]; e.state == active && s.has(e.key, e.hash) {
			u.place(*e)
			u.filled()
		}
	}
	return u
}

// Difference is s - t.
func (s *Set[T]) Difference(t *Set[T]) *Set[T] {
	if s.used>>2 > t.used {
		u := s.Clone()
		u.DifferenceUpdate(t)
		return u
	}
	u := newSet(s.hash)
	for i := range s.table {
		if e := &s.table[i]; e.state == active && !t.has(e.key, e.hash) {
			u.place(*e)
			u.filled()
		}
	}
	return u
}

// DifferenceUpdate is s -= t.
func (s *Set[T]) DifferenceUpdate(t *Set[T]) {
	if s == t {
		*s = Set[T]{hash: s.hash}
		s.table = s.small[:]
		return
	}
	for i := range t.table {
		if e := &t.table[i]; e.state == active {
			s.remove(e.key, e.hash)
		}
	}
	if s.fill-s.used > (len(s.table)-1)/4 { // many deleted entries: build the table again
		s.resize(s.grown())
	}
}

// SymmetricDifference is s ^ t.
func (s *Set[T]) SymmetricDifference(t *Set[T]) *Set[T] {
	u := t.Clone()
	for i := range s.table {
		if e := &s.table[i]; e.state == active && !u.remove(e.key, e.hash) {
			u.insert(e.key, e.hash)
		}
	}
	return u
}
