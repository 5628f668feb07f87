package reasoninggym

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

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
		{"ceasar", nil, `there is no dataset "ceasar", there are: caesar_cipher, isomorphic_strings`},
		{"caesar_cipher", Config{"min_word": 1}, `there is no field "min_word", there are: delimiter, max_rotation, max_words, min_rotation, min_words, seed, size`},
		{"caesar_cipher", Config{"MIN_WORDS": 1}, `there is no field "MIN_WORDS"`},
		{"caesar_cipher", Config{"min_words": "5"}, `min_words is "5", must be an integer`},
		{"caesar_cipher", Config{"min_words": 5.5}, `min_words is 5.5, must be an integer`},
		{"caesar_cipher", Config{"min_words": nil}, `min_words is <nil>, must be an integer`},
		{"caesar_cipher", Config{"min_words": math.NaN()}, `min_words is NaN, must be an integer`},
		{"caesar_cipher", Config{"delimiter": 5}, `delimiter is 5, must be a string`},
		{"caesar_cipher", Config{"seed": nil}, `seed is <nil>, must be an integer`},
		{"caesar_cipher", Config{"seed": json.Number("9223372036854775808")}, `seed`},
		{"caesar_cipher", Config{"size": 0}, `size is 0, must be at least 1`},
		{"caesar_cipher", Config{"min_words": 0}, `min_words is 0, must be at least 1`},
		{"caesar_cipher", Config{"min_words": 21}, `max_words is 20, must be at least 21`},
		{"caesar_cipher", Config{"min_rotation": 0}, `min_rotation is 0, must be 1 to 25`},
		{"caesar_cipher", Config{"max_rotation": 26}, `max_rotation is 26, must be 1 to 25`},
		{"caesar_cipher", Config{"min_rotation": 9, "max_rotation": 8}, `max_rotation is 8, must be 9 to 25`},
		{"caesar_cipher", Config{"delimiter": ""}, `delimiter is empty`},
		{"caesar_cipher", Config{"min_words": 9000, "max_words": 9001}, `no sentence of 9000 to 9001 words`},
		{"isomorphic_strings", Config{"p_solvable": 1.5}, `p_solvable is 1.5, must be 0 to 1`},
		{"isomorphic_strings", Config{"p_solvable": true}, `p_solvable is true, must be a number`},
		{"isomorphic_strings", Config{"min_string_length": 1}, `min_string_length is 1, must be at least 2`},
		{"isomorphic_strings", Config{"max_string_length": 1}, `max_string_length is 1, must be at least 2`},
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
		for _, info := range Datasets() {
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

func TestDatasets(t *testing.T) {
	for _, info := range Datasets() {
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

// Rollouts are graded and tasks are made from many goroutines at once.
func TestConcurrentUse(t *testing.T) {
	for _, info := range Datasets() {
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

// A model may write anything. Every text must have a score in [0,1], and the oracle must have 1.
func FuzzScore(f *testing.F) {
	for _, s := range []string{"", "True", "Truee", "IT WAS", "\x00", "\xff\xfe", "é", "nan", "1e400", "[[", strings.Repeat("(", 999)} {
		f.Add(uint16(3), s)
	}
	var all []*Dataset
	for _, info := range Datasets() {
		d, err := New(info.Name, nil)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, d)
	}
	f.Fuzz(func(t *testing.T, index uint16, answer string) {
		for _, d := range all {
			task, err := d.Task(t.Context(), int(index))
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range []string{answer, task.Answer + answer, answer + task.Answer} {
				score, err := d.Score(t.Context(), task, a)
				if err != nil || !(score >= 0 && score <= 1) {
					t.Errorf("%s: %q scores %v, %v", task.ID, a, score, err)
				}
			}
			if score, _ := d.Score(t.Context(), task, task.Answer); score != 1 {
				t.Errorf("%s: the oracle %q scores %v", task.ID, task.Answer, score)
			}
		}
	})
}

func BenchmarkTask(b *testing.B) {
	for _, info := range Datasets() {
		b.Run(info.Name, func(b *testing.B) {
			d, err := New(info.Name, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := d.Task(b.Context(), i); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
		})
	}
}

func BenchmarkScore(b *testing.B) {
	for _, info := range Datasets() {
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
