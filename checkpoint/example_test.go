package checkpoint_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/grouper-rl/grouper/checkpoint"
)

// A program that can be stopped at any time: run again, it goes on from its last checkpoint.
func ExampleRun() {
	ctx := context.Background()
	tmp, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)

	train := func(updates int) error {
		run, err := checkpoint.Open(filepath.Join(tmp, "run"))
		if err != nil {
			return err
		}
		defer run.Close()
		state, err := run.Begin(ctx, checkpoint.Identity{
			Settings:   map[string]any{"lr": 1e-6, "updates": updates},
			Changeable: []string{"updates"},
			Seed:       1,
			Plan:       checkpoint.Plan{TasksPerUpdate: 1, GroupSize: 2},
			Grader:     checkpoint.Grader{Source: "sums"},
			Bank:       map[string][]byte{"train.jsonl": []byte(`{"id":"sum/0","question":"1+1","answer":"2"}`)},
		})
		if err != nil {
			return err
		}
		done, weights := 0, []byte{0, 0, 0, 0}
		if state != nil {
			ts, err := state.Group(checkpoint.WeightsGroup)
			if err != nil {
				return err
			}
			if err := ts[0].ReadInto(weights); err != nil {
				return err
			}
			done = state.Update
		}
		fmt.Println("going on after update", done, "with weights", weights)
		for u := done + 1; u <= updates; u++ {
			weights[0]++
			lines := make([]checkpoint.Line, 2)
			for i := range lines {
				lines[i] = checkpoint.Line{Task: "sum/0", Sample: i, Seed: 1, Weights: u - 1, Tokens: []int32{2}, LogProbs: []float32{-1}, Text: "2", Finish: "stop", Reward: 1}
			}
			err := run.RecordUpdate(ctx, checkpoint.Update{Update: u, Weights: u - 1, Tasks: []string{"sum/0"}, Metrics: json.RawMessage(`{"loss":0.5}`)}, lines, nil)
			if err != nil {
				return err
			}
		}
		state = checkpoint.NewState(updates)
		state.Tensors[checkpoint.WeightsGroup] = []checkpoint.Tensor{{Name: "w", DType: "F32", Shape: []int{1}, Data: checkpoint.Bytes(weights)}}
		return run.SaveCheckpoint(ctx, state)
	}
	for _, updates := range []int{2, 5} {
		if err := train(updates); err != nil {
			log.Fatal(err)
		}
	}
	record, err := checkpoint.Read(filepath.Join(tmp, "run"))
	if err != nil {
		log.Fatal(err)
	}
	last := record.History.Updates[4]
	fmt.Println(last.Rollouts.Path, string(last.Metrics))
	// Output:
	// going on after update 0 with weights [0 0 0 0]
	// going on after update 2 with weights [2 0 0 0]
	// rollouts/000005.jsonl.zst {"groups_dropped":0,"loss":0.5,"reward_mean":1,"reward_std":0,"solve_all":1,"solve_none":0,"tokens_max":1,"tokens_mean":1,"truncated":0,"zero_variance":1}
}

// A run whose receipts are signed. The key is in a file that "grouper keygen" or "openssl genpkey -algorithm ed25519" made.
func ExampleRun_SignWith() {
	tmp, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	run, err := checkpoint.Open(filepath.Join(tmp, "run"))
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()

	block, _ := pem.Decode([]byte(`-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIMWqjfQ/n4N77bdELzHct7Fm04U1B28JS4XOOi4LRFj3
-----END PRIVATE KEY-----`)) // of the examples of RFC 8032, and so no secret
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		log.Fatal(err)
	}
	if err := run.SignWith(key.(ed25519.PrivateKey)); err != nil { // before the trainer begins
		log.Fatal(err)
	}
	fmt.Println(checkpoint.KeyText(key.(ed25519.PrivateKey).Public().(ed25519.PublicKey)))
	// Output:
	// ed25519:fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025
}
