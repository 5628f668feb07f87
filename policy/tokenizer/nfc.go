package tokenizer

import (
	"slices"
	"sync"
	"unicode/utf8"
)

// Hangul syllables are composed by arithmetic (Unicode, section 3.12).
const (
	jamoL, jamoV, jamoT, syllable = 0x1100, 0x1161, 0x11A7, 0xAC00
	jamoLs, jamoVs, jamoTs        = 19, 21, 28
	syllables                     = jamoLs * jamoVs * jamoTs
)

// nfcData is what normalisation form C needs of the Unicode Character Database.
type nfcData struct {
	class     map[rune]uint8   // combining classes that are not 0
	decompose map[rune][]rune  // full canonical decompositions
	compose   map[[2]rune]rune // primary composites
}

var nfcTables = sync.OnceValue(func() *nfcData {
	d := &nfcData{
		class:     make(map[rune]uint8, len(combiningClasses)/2),
		decompose: make(map[rune][]rune, len(decompositions)/4),
		compose:   make(map[[2]rune]rune, len(compositions)/3),
	}
	for i := 0; i < len(combiningClasses); i += 2 {
		d.class[combiningClasses[i]] = uint8(combiningClasses[i+1])
	}
	for i := 0; i < len(decompositions); {
		n := int(decompositions[i+1])
		d.decompose[decompositions[i]] = decompositions[i+2 : i+2+n]
		i += 2 + n
	}
	for i := 0; i < len(compositions); i += 3 {
		d.compose[[2]rune{compositions[i], compositions[i+1]}] = compositions[i+2]
	}
	return d
})

// nfc is normalisation form C as the released tokenizers were made with: it has older tables than x/text/unicode/norm and no limit
// on the number of marks. The text must be valid UTF-8; it is returned as it is if nothing changes.
func nfc(s string) string {
	table := classes()
	var out []byte
	copied := 0 // s[:copied] is in out
	start := 0  // where the last character began that nothing before it can join with
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			start = i
			i++
			continue
		}
		c, n := table.at(s, i)
		if c&joins == 0 {
			start = i
		}
		i += n
		if c&changes == 0 {
			continue
		}
		for i < len(s) {
			c, n := table.at(s, i)
			if c&joins == 0 {
				break
			}
			i += n
		}
		out = append(out, s[copied:start]...)
		out = appendNFC(out, s[start:i])
		copied, start = i, i
	}
	if copied == 0 {
		return s
	}
	return string(append(out, s[copied:]...))
}

type classed struct {
	r     rune
	class uint8
}

// appendNFC normalises a piece of text before and after which nothing can join with it.
func appendNFC(out []byte, s string) []byte {
	d := nfcTables()
	var short [32]classed
	text := short[:0]
	sorted := true
	add := func(r rune) {
		c := d.class[r]
		if n := len(text); c != 0 && n > 0 && text[n-1].class > c {
			sorted = false
		}
		text = append(text, classed{r, c})
	}
	for _, r := range s {
		if h := r - syllable; h >= 0 && h < syllables {
			add(jamoL + h/(jamoVs*jamoTs))
			add(jamoV + h%(jamoVs*jamoTs)/jamoTs)
			if t := h % jamoTs; t != 0 {
				add(jamoT + t)
			}
		} else if parts := d.decompose[r]; parts != nil {
			for _, p := range parts {
				add(p)
			}
		} else {
			add(r)
		}
	}
	if !sorted {
		order(text)
	}
	kept := text[:0]
	starter := -1
	for _, c := range text {
		// A mark composes with the starter unless one of the same or a higher class, or another starter, stands between.
		if n := len(kept); starter >= 0 && (starter == n-1 || kept[n-1].class < c.class) {
			if r, ok := d.composite(kept[starter].r, c.r); ok {
				kept[starter].r = r
				continue
			}
		}
		if c.class == 0 {
			starter = len(kept)
		}
		kept = append(kept, c)
	}
	for _, c := range kept {
		out = utf8.AppendRune(out, c.r)
	}
	return out
}

// order sorts each run of marks by class and keeps the order of equal ones.
func order(text []classed) {
	for i := 0; i < len(text); {
		end := i + 1
		if text[i].class != 0 {
			for end < len(text) && text[end].class != 0 {
				end++
			}
			slices.SortStableFunc(text[i:end], func(a, b classed) int { return int(a.class) - int(b.class) })
		}
		i = end
	}
}

func (d *nfcData) composite(a, b rune) (rune, bool) {
	if l, v := a-jamoL, b-jamoV; l >= 0 && l < jamoLs && v >= 0 && v < jamoVs {
		return syllable + (l*jamoVs+v)*jamoTs, true
	}
	if h, t := a-syllable, b-jamoT; h >= 0 && h < syllables && h%jamoTs == 0 && t > 0 && t < jamoTs {
		return a + t, true
	}
	r, ok := d.compose[[2]rune{a, b}]
	return r, ok
}
