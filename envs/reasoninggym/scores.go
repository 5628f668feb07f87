package reasoninggym

import (
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// Mode says whose faults a dataset has.
type Mode string

const (
	// Upstream has all of upstream's faults: the same items and the same scores, also where they are wrong.
	Upstream Mode = "upstream"
	// Corrected has right answers where upstream's are wrong, and full credit for right answers only. Info.Faults says what is
	// different for a dataset.
	Corrected Mode = "corrected"
)

// Fault is something that is wrong upstream and right in Mode Corrected, with an example of it: item Index of the dataset with
// the settings Config and seed 42, which differs between the modes, or an Answer to it whose score does.
type Fault struct {
	What   string // is wrong, and what Corrected does
	Config Config // of the example; nil is all defaults
	Index  int
	Answer string // in which "{answer}" stands for the item's answer
}

// Example fills in the answer of a task.
func (f Fault) Example(task envs.Task) string {
	return strings.ReplaceAll(f.Answer, "{answer}", task.Answer)
}

// scorer gives an answer a number in [0,1], whatever the answer is. It may panic with a python.Error where upstream raises, which
// scores 0. An error says that the task is none of this dataset.
type scorer func(task envs.Task, answer string) (float64, error)

// substringScore is ProceduralDataset.score_answer of reasoning_gym/dataset.py: 1 for the oracle itself, for a text that
// contains it the oracle's share of the characters, else 0. An oracle that is empty never scores.
func substringScore(task envs.Task, answer string) (float64, error) {
	return substringShare(task.Answer, answer), nil
}

func substringShare(oracle, answer string) float64 {
	switch {
	case answer == "" || !strings.Contains(answer, oracle):
		return 0
	case answer == oracle:
		return 1
	}
	return float64(utf8.RuneCountInString(oracle)) / float64(utf8.RuneCountInString(answer))
}

var substringFault = Fault{
	What:   "A text that contains the right answer gets a part of the credit, such as 16 for 6; corrected, an answer is right or wrong, white space around it and the way to write a number aside.",
	Answer: "1{answer}",
}

// equalScore corrects substringScore: 1 for the oracle, with or without white space around it, and for another way to write
// the number that it is, else 0.
func equalScore(task envs.Task, answer string) (float64, error) {
	oracle, answer := python.Strip(task.Answer), python.Strip(answer)
	if oracle == answer || sameNumber(oracle, answer) {
		return 1, nil
	}
	return 0, nil
}

// sameNumber says whether both texts are decimal numbers with one value.
func sameNumber(oracle, answer string) bool {
	if !looksNumeric(oracle) || !looksNumeric(answer) {
		return false
	}
	a, err1 := python.ParseDecimal(oracle)
	b, err2 := python.ParseDecimal(answer)
	return err1 == nil && err2 == nil && a.Equal(b)
}

// looksNumeric keeps words like "infinity", which Python reads as a number, from being one.
func looksNumeric(s string) bool {
	return strings.ContainsAny(s, "0123456789") && strings.Trim(s, "+-.0123456789eE") == ""
}

// decimalScore is compute_decimal_reward of reasoning_gym/utils.py: 1 if both texts are one number for Decimal, commas left
// out, else as substringScore.
func decimalScore(task envs.Task, answer string) (float64, error) {
	oracle := strings.ReplaceAll(task.Answer, ",", "")
	answer = strings.ReplaceAll(answer, ",", "")
	a, err1 := python.ParseDecimal(answer)
	b, err2 := python.ParseDecimal(oracle)
	if err1 == nil && err2 == nil && a.Equal(b) {
		return 1, nil
	}
	return substringShare(oracle, answer), nil
}

// decimalScoreCorrected is equalScore with commas between the digits left out.
func decimalScoreCorrected(task envs.Task, answer string) (float64, error) {
	return equalScore(task, strings.ReplaceAll(answer, ",", ""))
}
