package reasoninggym

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/envs"
)

func ExampleDataset_Sources() {
	tasks, err := New("chain_sum", Config{"min_terms": 4, "seed": 7})
	if err != nil {
		panic(err)
	}
	from, err := tasks.Sources()
	if err != nil {
		panic(err)
	}
	bank, err := envs.FreezeParts(context.Background(), from, envs.Split{Train: 400, Validation: 50, Confirmation: 50})
	if err != nil {
		panic(err)
	}
	fmt.Println(bank.Train[0].ID, bank.Validation[0].ID, bank.Confirmation[0].ID)
	// Output: chain_sum/7/0 chain_sum/1000000007/0 chain_sum/2000000007/0
}

// If validation had tasks of training, its accuracy would say how much was learned by heart.
func TestNeighbouringSeedsAreRefused(t *testing.T) {
	var from envs.Sources
	for i, source := range []*envs.Source{&from.Train, &from.Validation} {
		d, err := New("chain_sum", Config{"seed": 42 + 10*i})
		if err != nil {
			t.Fatal(err)
		}
		*source = d
	}
	_, err := envs.FreezeParts(t.Context(), from, envs.Split{Train: 11, Validation: 5})
	if !errors.Is(err, envs.ErrOverlap) || !strings.Contains(err.Error(), "validation task chain_sum/52/0 has the question of train task chain_sum/42/10") {
		t.Error(err)
	}
	if _, err := envs.FreezeParts(t.Context(), from, envs.Split{Train: 10, Validation: 5}); err != nil {
		t.Error(err)
	}
}

// A bank of three seeds must be made again from its manifest alone, for every dataset and for a composite with seeds of its own.
func TestSources(t *testing.T) {
	for _, info := range Names() {
		d, err := New(info.Name, Config{"seed": 5})
		if err != nil {
			t.Fatal(err)
		}
		from, err := d.Sources()
		if err != nil {
			t.Fatal(err)
		}
		for i, source := range []envs.Source{from.Train, from.Validation, from.Confirmation} {
			again, err := FromOrigin(source.(envs.Described).Origin())
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(5 + 1_000_000_000*i); again.common.Seed != want {
				t.Errorf("%s: seed %d, want %d", info.Name, again.common.Seed, want)
			}
			if dumpTask(t, source.(*Dataset), 3) != dumpTask(t, again, 3) {
				t.Errorf("%s: part %d is another one when made again", info.Name, i)
			}
		}
	}
	c, err := NewComposite(CompositeConfig{Datasets: []CompositePart{{"gcd", 1, Config{"seed": 9}}, {"lcm", 2, nil}}}, Common{Seed: 5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove("lcm"); err != nil {
		t.Fatal(err)
	}
	from, err := c.Sources()
	if err != nil {
		t.Fatal(err)
	}
	moved := from.Confirmation.(*Dataset)
	if got := string(moved.config); strings.Contains(got, "lcm") || !strings.Contains(got, `"seed":2000000009`) || !strings.Contains(got, `"seed":2000000005`) {
		t.Error(got)
	}
	for _, seed := range []int64{-1, math.MaxInt64} {
		d, err := New("gcd", Config{"seed": seed})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Sources(); err == nil || !strings.Contains(err.Error(), "seed is ") {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
