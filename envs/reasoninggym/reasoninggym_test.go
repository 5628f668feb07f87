package reasoninggym

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grouper-rl/grouper/envs"
)

func Example() {
	tasks, err := New("caesar_cipher", Config{"min_words": 5, "max_words": 12, "seed": 42})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	bank, err := envs.Freeze(ctx, tasks, envs.Split{Train: 114, Validation: 50, DistinctBy: "clear_text"})
	if err != nil {
		panic(err)
	}
	task := bank.Train[0]
	fmt.Println(task.ID, task.Question)
	score, err := envs.CompletedAnswer{Env: tasks}.Grade(ctx, task, envs.Reply{
		Text:     "Four back. <answer>" + task.Answer + "</answer>",
		Finished: true,
	})
	fmt.Println(score.Reward, score.Labels, err)
	// Output:
	// caesar_cipher/42/0 Decrypt this Caesar cipher text: YRPIWW E GSTCVMKLX RSXMGI MW MRGPYHIH. Provide only the decrypted text as your final answer.
	// 1 [correct] <nil>
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		want   string
	}{
		{"ceasar", nil, `there is no dataset "ceasar", there are: a`},
		{"caesar_cipher", Config{"min_word": 1}, `there is no field "min_word", there are: delimiter, max_rotation, max_words, min_rotation, min_words, mode, seed, size`},
		{"caesar_cipher", Config{"MIN_WORDS": 1}, `there is no field "MIN_WORDS"`},
		{"caesar_cipher", Config{"min_words": "5"}, `min_words is "5", must be an integer`},
		{"caesar_cipher", Config{"min_words": 5.5}, `min_words is 5.5, must be an integer`},
		{"caesar_cipher", Config{"min_words": nil}, `min_words is null, must be an integer`},
		{"caesar_cipher", Config{"min_words": math.NaN()}, `min_words is NaN, must be an integer`},
		{"caesar_cipher", Config{"delimiter": 5}, `delimiter is 5, must be a string`},
		{"caesar_cipher", Config{"seed": nil}, `seed is null, must be an integer`},
		{"caesar_cipher", Config{"seed": json.Number("9223372036854775808")}, `seed`},
		{"caesar_cipher", Config{"size": 0}, `size is 0, must be at least 1`},
		{"caesar_cipher", Config{"min_words": 0}, `min_words is 0, must be at least 1`},
		{"caesar_cipher", Config{"min_words": 21}, `max_words is 20, must be at least 21`},
		{"caesar_cipher", Config{"min_rotation": 0}, `min_rotation is 0, must be 1 to 25`},
		{"caesar_cipher", Config{"max_rotation": 26}, `max_rotation is 26, must be 1 to 25`},
		{"caesar_cipher", Config{"min_rotation": 9, "max_rotation": 8}, `max_rotation is 8, must be 9 to 25`},
		{"caesar_cipher", Config{"delimiter": ""}, `delimiter is empty`},
		{"caesar_cipher", Config{"min_words": 9000, "max_words": 9001}, `no sentence of 9000 to 9001 words`},
		{"caesar_cipher", Config{"mode": "strict"}, `mode is "strict", must be one of ["upstream" "corrected"]`},
		{"basic_arithmetic", Config{"operators": "+"}, `operators is "+", must be a list, each element a string`},
		{"basic_arithmetic", Config{"operators": []string{"+", "**"}}, `an element of operators is "**", must be one of ["+" "-" "*" "/"]`},
		{"basic_arithmetic", Config{"operators": []any{"+", nil}}, `operators is ["+",null], must be a list, each element a string`},
		{"basic_arithmetic", Config{"operators": []string{}}, `operators is empty`},
		{"basic_arithmetic", Config{"whitespace": "two"}, `whitespace is "two", must be one of ["no_space" "single" "random"]`},
		{"number_sorting", Config{"min_value": "1"}, `min_value is "1", must be a number`},
		{"number_sorting", Config{"min_value": json.Number("9007199254740993")}, `min_value is 9007199254740993, must be a number, an integer below 2^53 or a float`},
		{"number_sorting", Config{"min_value": math.Inf(-1)}, `min_value is -Inf, must be finite`},
		{"number_sorting", Config{"min_value": 3, "max_value": 3}, `max_value is 3, must be above 3`},
		{"base_conversion", Config{"min_base": 9, "max_base": 9}, `max_base is 9, must be 10 to 36`},
		{"isomorphic_strings", Config{"p_solvable": 1.5}, `p_solvable is 1.5, must be 0 to 1`},
		{"isomorphic_strings", Config{"p_solvable": true}, `p_solvable is true, must be a number`},
		{"isomorphic_strings", Config{"min_string_length": 1}, `min_string_length is 1, must be at least 2`},
		{"isomorphic_strings", Config{"max_string_length": 1}, `max_string_length is 1, must be 2 to 1000000`},
	} {
		_, err := New(c.name, c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: got %v, want %q", c.name, c.config, err, c.want)
		}
	}
}

// A verifier has only the bank: with the origin in its manifest it must get the scorer and the tasks again.
func TestFromOrigin(t *testing.T) {
	for _, config := range []Config{nil, {"seed": math.MaxInt64 - 5}, {"seed": -7, "size": 3}} {
		for _, info := range Names() {
			d, err := New(info.Name, config)
			if err != nil {
				t.Fatal(err)
			}
			again, err := FromOrigin(d.Origin())
			if err != nil {
				t.Fatal(err)
			}
			if dumpTask(t, d, 5) != dumpTask(t, again, 5) || string(again.config) != string(d.config) || again.Size() != d.Size() {
				t.Errorf("%s: config %s came back as %s", info.Name, d.config, again.config)
			}
		}
	}
	for _, o := range []envs.Origin{{Name: "caesar_cipher"}, {Name: "reasoning_gym/x"}, {Name: "reasoning_gym/caesar_cipher", Config: json.RawMessage(`[]`)}} {
		if _, err := FromOrigin(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestNames(t *testing.T) {
	for _, info := range Names() {
		if info.Category == "" || info.Description == "" {
			t.Errorf("%+v", info)
		}
		var defaults Config
		if err := json.Unmarshal(info.Defaults, &defaults); err != nil {
			t.Fatal(err)
		}
		d, err := New(info.Name, defaults)
		if err != nil || string(d.config) != string(info.Defaults) {
			t.Errorf("%s: its defaults %s are refused or changed: %v", info.Name, info.Defaults, err)
		}
	}
}

func TestTaskErrors(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	d, err := New("caesar_cipher", Config{"seed": int64(math.MaxInt64)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ctx   context.Context
		index int
		want  string
	}{{t.Context(), -1, "index is -1"}, {t.Context(), 1, "above 2^63-1"}, {stopped, 0, "canceled"}} {
		if _, err := d.Task(c.ctx, c.index); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// Some settings let upstream search for ever. A user who stops waiting must get the goroutine back.
func TestEndlessItemsEndWithTheContext(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
	}{
		{"graph_color", Config{"num_colors": 1, "min_num_vertices": 100, "max_num_vertices": 100, "edge_probability": 0.9}},
		{"ab", Config{"length": 10_000}},
		{"tsumego", Config{"min_board_size": 5, "max_board_size": 5, "max_stones": 1 << 40}},
		{"sokoban", Config{"min_boxes": 9, "max_boxes": 9, "max_depth": 2}},
		{"maze", Config{"min_dist": 5000, "max_dist": 5000, "min_grid_size": 1000, "max_grid_size": 1000}},
		{"basic_arithmetic", Config{"operators": []string{"+", "/"}, "min_terms": 9, "max_terms": 9, "min_digits": 60, "max_digits": 60}},
		{"propositional_logic", Config{"min_vars": 20, "max_vars": 20, "min_statements": 1000, "max_statements": 1000, "min_complexity": 12, "max_complexity": 12}},
		{"knights_knaves", Config{"n_people": 20, "depth_constraint": 10, "width_constraint": 10}},
		{"composite", Config{"datasets": []CompositePart{{"ab", 1, Config{"length": 10_000}}}}},
	} {
		d, err := New(c.name, c.config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		start := time.Now()
		_, err = d.Task(ctx, 0)
		cancel()
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 60*time.Second {
			t.Errorf("%s: %v after %v", c.name, err, took)
		} else {
			t.Log(c.name, took)
		}
	}
}

// A typed config must be the same dataset as upstream's names of its fields, and must not share lists with the defaults.
func TestOpen(t *testing.T) {
	config := Defaults[CaesarCipherConfig]()
	config.MinWords, config.MaxWords = 5, 12
	typed, err := Open(config, Common{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	named, err := New("caesar_cipher", Config{"min_words": 5, "max_words": 12, "seed": 7})
	if err != nil {
		t.Fatal(err)
	}
	if dumpTask(t, typed, 3) != dumpTask(t, named, 3) || string(typed.config) != string(named.config) {
		t.Errorf("%s is not %s", typed.config, named.config)
	}
	config.MinWords = 0
	if _, err := Open(config, Common{}); err == nil || !strings.Contains(err.Error(), "min_words is 0") {
		t.Error(err)
	}
	if _, err := Open(Defaults[CaesarCipherConfig](), Common{Mode: "strict"}); err == nil || !strings.Contains(err.Error(), `mode is "strict", must be one of ["upstream" "corrected"]`) {
		t.Error(err)
	}
	styles := Defaults[FractionSimplificationConfig]()
	styles.Styles[0] = "changed"
	if Defaults[FractionSimplificationConfig]().Styles[0] != "plain" {
		t.Error("a user can change the defaults")
	}
}

// Who reads what Corrected changes must be able to rely on it: each fault's example differs between the modes, and a dataset
// that corrects anything says so.
func TestFaults(t *testing.T) {
	for _, info := range Names() {
		for _, f := range info.Faults {
			config := Config{}
			for name, value := range f.Config {
				config[name] = value
			}
			score := map[Mode]float64{}
			made := map[Mode]envs.Task{}
			for _, mode := range []Mode{Upstream, Corrected} {
				config["mode"] = mode
				d, err := New(info.Name, config)
				if err != nil {
					t.Fatal(err)
				}
				made[mode], err = d.Task(t.Context(), f.Index)
				if err != nil && !errors.Is(err, ErrNoItem) {
					t.Fatal(err)
				}
				score[mode], err = d.Score(t.Context(), made[Upstream], f.Example(made[Upstream]))
				if err != nil {
					t.Fatal(err)
				}
			}
			if score[Upstream] == score[Corrected] && made[Upstream].Question == made[Corrected].Question && made[Upstream].Answer == made[Corrected].Answer {
				t.Errorf("%s, %q: %q scores %v in both modes", info.Name, f.What, f.Example(made[Upstream]), score[Upstream])
			}
		}
	}
}

// Metadata may have been written by another program, such as upstream: white space between its parts must not change a score.
func TestScoreOfSpacedMetadata(t *testing.T) {
	for _, info := range Names() {
		for _, mode := range []Mode{Upstream, Corrected} {
			d, err := New(info.Name, Config{"mode": mode})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				task, err := d.Task(t.Context(), i)
				if err != nil {
					t.Fatal(err)
				}
				spaced := task
				var b bytes.Buffer
				if err := json.Indent(&b, task.Metadata, " ", "\t"); err != nil {
					t.Fatal(err)
				}
				spaced.Metadata = b.Bytes()
				for _, answer := range []string{task.Answer, task.Answer + "1", "1", "[1]", "P", "wrong"} {
					want, err1 := d.Score(t.Context(), task, answer)
					got, err2 := d.Score(t.Context(), spaced, answer)
					if got != want || err1 != nil || err2 != nil {
						t.Errorf("%s: %q scores %v (%v) with the metadata %s, else %v (%v)", task.ID, answer, got, err2, spaced.Metadata, want, err1)
					}
				}
			}
		}
	}
}

// Rollouts are graded and tasks are made from many goroutines at once.
func TestConcurrentUse(t *testing.T) {
	for _, info := range Names() {
		d, err := New(info.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want [20]string
		for i := range want {
			want[i] = dumpTask(t, d, i)
		}
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for i := range want {
					if got := dumpTask(t, d, i); got != want[i] {
						t.Errorf("%s: item %d is %s, want %s", info.Name, i, got, want[i])
					}
				}
			})
		}
		wait.Wait()
	}
}

func dumpTask(t *testing.T, d *Dataset, index int) string {
	task, err := d.Task(t.Context(), index)
	if err != nil {
		t.Error(err)
	}
	data, err := json.Marshal(task)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// judged is a dataset with some of its tasks.
type judged struct {
	*Dataset
	tasks []envs.Task
}

// all returns every dataset in both modes, with so many tasks.
func all(tb testing.TB, tasks int) (all []judged) {
	for _, info := range Names() {
		for _, mode := range []Mode{Upstream, Corrected} {
			d, err := New(info.Name, Config{"mode": mode})
			if err != nil {
				tb.Fatal(err)
			}
			j := judged{Dataset: d}
			for i := 0; len(j.tasks) < tasks; i++ {
				task, err := d.Task(tb.Context(), i)
				if errors.Is(err, ErrNoItem) {
					continue
				}
				if err != nil {
					tb.Fatal(err)
				}
				j.tasks = append(j.tasks, task)
			}
			all = append(all, j)
		}
	}
	return all
}

// A model may write anything. Every text must have a score in [0,1] in both modes, and the oracle of a corrected dataset must have 1.
func FuzzScore(f *testing.F) {
	for _, s := range []string{"", "True", "Truee", "IT WAS", "\x00", "\xff\xfe", "é", "nan", "1e400", "1e999999999", "[[", "0x", "['1', '2']", "$\\frac{1}{2}$", "1_0/٣",
		"9**9**9", `{"0": 1}`, "P ∨ ¬P", "a is a knight", "1 + 2i", "A → B", "LURD", "_ 1 2", strings.Repeat("(", 999), strings.Repeat("[", 2000), strings.Repeat("9", 5000)} {
		f.Add(uint8(3), s)
	}
	const tasks = 8
	datasets := all(f, tasks)
	f.Fuzz(func(t *testing.T, index uint8, answer string) {
		for _, d := range datasets {
			task := d.tasks[index%tasks]
			for _, a := range []string{answer, task.Answer + answer, answer + task.Answer} {
				score, err := d.Score(t.Context(), task, a)
				if err != nil || !(score >= 0 && score <= 1) {
					t.Errorf("%s: %q scores %v, %v", task.ID, a, score, err)
				}
			}
			if score, _ := d.Score(t.Context(), task, task.Answer); score != 1 && task.Answer != "" && d.common.Mode == Corrected {
				t.Errorf("%s: the oracle %q scores %v", task.ID, task.Answer, score)
			}
			task.Metadata = []byte(answer) // a bank's file may hold anything
			if score, err := d.Score(t.Context(), task, answer); err == nil && !(score >= 0 && score <= 1) {
				t.Errorf("%s with the metadata %q: %v", task.ID, answer, score)
			}
		}
	})
}

// A reward that takes minutes stops a run. What a model can write of 20 kB must be judged in a moment, whatever it is.
func TestScoreEnds(t *testing.T) {
	size := 20_000
	if testing.Short() {
		size = 2000
	}
	texts := map[string]string{"powers": "9**9**9**9", "exponent": "1e999999999", "fraction": "1/1e-99999999", "decimal": "1e999999999999999999", "digits before": strings.Repeat("9", size) + "e-5"}
	for _, part := range []string{
		"(", "[", "{", `{"a":`, "[[1],", "-", "~", "¬", "(P → ", "P ∧ ", "9", "9**", "1+", "1_", "0x", "1 ", "1,", "\n", "\\frac{", "$", "i", "A → ", "LURD", "knight ", "is a ", "e is a knight and ", "#A ", "\u0130", "é", "\xff", "'", `"\u0041`,
	} {
		texts[part] = strings.Repeat(part, size/len(part))
	}
	for _, d := range all(t, 1) {
		task := d.tasks[0]
		for name, text := range texts {
			for _, answer := range []string{text, task.Answer + text, text + task.Answer} {
				start := time.Now()
				score, err := d.Score(t.Context(), task, answer)
				if took := time.Since(start); took > 30*time.Second || err != nil || !(score >= 0 && score <= 1) {
					t.Errorf("%s, %s: %q scores %v (%v) after %v", task.ID, d.common.Mode, name, score, err, took)
				}
			}
		}
	}
}

func BenchmarkTask(b *testing.B) {
	for _, info := range Names() {
		b.Run(info.Name, func(b *testing.B) {
			d, err := New(info.Name, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := d.Task(b.Context(), i); err != nil && !errors.Is(err, ErrNoItem) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
		})
	}
}

func BenchmarkScore(b *testing.B) {
	for _, info := range Names() {
		b.Run(info.Name, func(b *testing.B) {
			d, err := New(info.Name, nil)
			if err != nil {
				b.Fatal(err)
			}
			task, err := d.Task(b.Context(), 0)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := d.Score(b.Context(), task, task.Answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
