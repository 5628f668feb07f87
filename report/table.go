package report

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/checkpoint"
)

var tableHeader = []string{"update", "accuracy", "correct / scored", "truncated", "95 % interval", "mean tokens"}

// tableRow is an evaluation in the columns of tableHeader.
func tableRow(e *checkpoint.Evaluation) []string {
	return []string{
		strconv.Itoa(e.Update), percent(e.Accuracy), fmt.Sprintf("%d / %d", e.Correct, e.Scored), strconv.Itoa(e.Truncated),
		fmt.Sprintf("%.2f – %.2f %%", 100*e.Interval[0], 100*e.Interval[1]), fmt.Sprintf("%.1f", e.MeanTokens),
	}
}

func percent(fraction float64) string { return fmt.Sprintf("%.2f %%", 100*fraction) }

// Table lists evaluations, one a line, in aligned columns for a terminal: the update, the accuracy in percent, how many
// completions were correct of how many scored, how many of them were truncated, the 95 % interval of the accuracy, and the mean
// length of a completion in tokens.
func Table(evaluations []checkpoint.Evaluation) string {
	if len(evaluations) == 0 {
		return "no evaluations\n"
	}
	rows := [][]string{tableHeader}
	for i := range evaluations {
		rows = append(rows, tableRow(&evaluations[i]))
	}
	widths := make([]int, len(tableHeader))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			fmt.Fprintf(&b, "%*s", widths[i], cell) // widths in runes
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// results is results.md.
func results(h *checkpoint.History) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Results\n\n%s\n\n", headline(h.Evaluations))
	fmt.Fprintf(&b, "%s\n\n![Training reward and validation accuracy](curves.png)\n", progress(h))
	if len(h.Evaluations) == 0 {
		return b.Bytes()
	}
	fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(tableHeader, " | "), strings.Repeat("---:|", len(tableHeader)))
	for i := range h.Evaluations {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(tableRow(&h.Evaluations[i]), " | "))
	}
	b.WriteString("\nTruncated completions count as failures. The interval is the 95 % Wilson score interval of the accuracy over all scored completions.\n")
	return b.Bytes()
}

// headline is what a run came to, in a line.
func headline(evaluations []checkpoint.Evaluation) string {
	if len(evaluations) == 0 {
		return "No evaluation was recorded."
	}
	at := func(e *checkpoint.Evaluation) string {
		where := fmt.Sprintf("after update %d", e.Update)
		if e.Update == 0 {
			where = "before training"
		}
		return fmt.Sprintf("**%s** %s (%d of %d)", percent(e.Accuracy), where, e.Correct, e.Scored)
	}
	first, last := &evaluations[0], &evaluations[len(evaluations)-1]
	if first == last {
		return "Validation accuracy: " + at(first) + "."
	}
	return "Validation accuracy: " + at(first) + " → " + at(last) + "."
}

// progress says how far a run is.
func progress(h *checkpoint.History) string {
	s := fmt.Sprintf("%d updates", h.Update())
	if h.Update() == 1 {
		s = "1 update"
	}
	if !h.Finished {
		s += " so far; the run is not finished"
	}
	if h.RolledBack.Updates > 0 {
		s += fmt.Sprintf("; %d more were rolled back and count in nothing", h.RolledBack.Updates)
	}
	return s + "."
}
