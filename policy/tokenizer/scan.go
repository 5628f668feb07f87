package tokenizer

// scanner cuts text into the pieces that byte-pair encoding works on.
type scanner interface {
	// next is the end of the piece that begins at s[i]. The text is valid UTF-8 and i is less than its length.
	next(s string, i int) int
}

// scannerFor gives the scanner of a regular expression as tokenizer.json spells it; nil for one that has no scanner here.
func scannerFor(pattern string) scanner {
	switch pattern {
	case `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: // Qwen2, Qwen3
		return &wordScanner{classes(), letter, 1}
	case `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: // Qwen3.5
		return &wordScanner{classes(), letter | mark, 1}
	case `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: // Llama 3
		return &wordScanner{classes(), letter, 3}
	case gpt2Pattern:
		return &gpt2Scanner{classes(), 0}
	}
	return nil
}

// gpt2Pattern is built into the ByteLevel pre-tokenizer.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// contraction is the end of one of 's 't 're 've 'm 'll 'd at s[i], or i if there is none. With fold capitals count, too, and
// so does U+017F, the long s, as the only other character that folds to one of these letters.
func contraction(s string, i int, fold bool) int {
	if s[i] != '\'' || i+1 >= len(s) {
		return i
	}
	lower := func(b byte) byte {
		if fold && 'A' <= b && b <= 'Z' {
			return b + 'a' - 'A'
		}
		return b
	}
	first, second := lower(s[i+1]), byte(0)
	if i+2 < len(s) {
		second = lower(s[i+2])
	}
	switch {
	case first == 's' || first == 't' || first == 'm' || first == 'd':
		return i + 2
	case first == 'r' && second == 'e', first == 'v' && second == 'e', first == 'l' && second == 'l':
		return i + 3
	case fold && s[i+1] == 0xC5 && second == 0xBF:
		return i + 3
	}
	return i
}

// wordScanner is the pattern that cl100k, Llama 3 and Qwen share, as a function of what counts as part of a word and
// of how many digits stay together.
type wordScanner struct {
	classes *classTable
	letters class
	digits  int
}

func (p *wordScanner) next(s string, i int) int {
	if end := contraction(s, i, true); end > i {
		return end
	}
	c, n := p.classes.at(s, i)
	after := i + n
	switch {
	case c&p.letters != 0:
		return p.classes.run(s, after, p.letters)
	case c&number != 0:
		for d := 1; d < p.digits && after < len(s); d++ {
			c, n := p.classes.at(s, after)
			if c&number == 0 {
				break
			}
			after += n
		}
		return after
	}
	var follows class
	if after < len(s) {
		follows, _ = p.classes.at(s, after)
	}
	notOther := p.letters | number | space
	switch {
	case follows&p.letters != 0 && s[i] != '\r' && s[i] != '\n': // one character of any kind, then letters
		return p.classes.run(s, after, p.letters)
	case c&space == 0, s[i] == ' ' && after < len(s) && follows&notOther == 0:
		end := p.classes.runWithout(s, after, notOther)
		for end < len(s) && (s[end] == '\r' || s[end] == '\n') {
			end++
		}
		return end
	}
	// White space: up to the last line break, if there is one.
	end, last, lineBreak := i, i, i
	for end < len(s) {
		c, n := p.classes.at(s, end)
		if c&space == 0 {
			break
		}
		last = end
		if s[end] == '\r' || s[end] == '\n' {
			lineBreak = end + 1
		}
		end += n
	}
	switch {
	case lineBreak > i:
		return lineBreak
	case end < len(s) && last > i: // the last one belongs to what follows
		return last
	}
	return end
}

// gpt2Scanner is GPT-2's pattern. Characters of the class alone are pieces of their own and end the text for the pattern, as
// they do for SmolLM's digits.
type gpt2Scanner struct {
	classes *classTable
	alone   class
}

func (p *gpt2Scanner) next(s string, i int) int {
	c, n := p.classes.at(s, i)
	if c&p.alone != 0 {
		return i + n
	}
	if end := contraction(s, i, false); end > i {
		return end
	}
	const notOther = letter | number | space
	from := i
	if s[i] == ' ' && i+1 < len(s) { // one space goes with what follows
		if follows, m := p.classes.at(s, i+1); follows&(space|p.alone) == 0 {
			c, n, from = follows, m, i+1
		}
	}
	switch {
	case c&letter != 0:
		return p.classes.run(s, from+n, letter)
	case c&number != 0:
		return p.classes.run(s, from+n, number)
	case c&space == 0:
		return p.classes.runWithout(s, from+n, notOther|p.alone)
	}
	end, last := i, i
	for end < len(s) {
		c, n := p.classes.at(s, end)
		if c&space == 0 {
			if c&p.alone != 0 {
				return end
			}
			break
		}
		last = end
		end += n
	}
	if end < len(s) && last > i {
		return last
	}
	return end
}

// whole is a scanner that cuts nothing.
type whole struct{}

func (whole) next(s string, _ int) int { return len(s) }
