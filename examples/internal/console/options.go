package console

import (
	"flag"
	"fmt"
	"os"

	"github.com/grouper-rl/grouper/checkpoint"
)

// Options are what the flags of an example say.
type Options struct {
	Dir, Backend, Optimizer string
	Key                     string  // a file with the private key that signs the run; "": it is not signed
	LR                      float64 // 0: the example's choice for the optimizer
	Updates, EvalEvery, Lag int
	Seed                    int64
	Quiet                   bool
}

// Flags reads the options of an example of that name from the command line.
func Flags(example, optimizer string) Options {
	var o Options
	flag.StringVar(&o.Dir, "dir", "", "run directory; an existing one is resumed (default runs/"+example+"-OPTIMIZER)")
	flag.StringVar(&o.Backend, "backend", "auto", "auto, go, cpu, cuda or the path of a PJRT plug-in")
	flag.StringVar(&o.Optimizer, "optimizer", optimizer, "adam or sgd")
	flag.Float64Var(&o.LR, "lr", 0, "learning rate (default: what suits the model and the optimizer)")
	flag.IntVar(&o.Updates, "updates", 100, "optimizer updates in all")
	flag.Int64Var(&o.Seed, "seed", 1, "names all randomness of the run")
	flag.IntVar(&o.EvalEvery, "eval-every", 10, "updates between checkpoints and evaluations")
	flag.IntVar(&o.Lag, "lag", 0, "sample this many updates ahead, on an engine apart from that of evaluations; 0: on-policy")
	flag.StringVar(&o.Key, "key", "", "file with a private key, as grouper keygen makes it, that signs the run's receipts, from the first start on")
	flag.BoolVar(&o.Quiet, "quiet", false, "print only the table at the end")
	Parse()
	return o
}

// Sign has a run signed with the key, if there is one.
func (o Options) Sign(run *checkpoint.Run) error {
	if o.Key == "" {
		return nil
	}
	data, err := os.ReadFile(o.Key)
	if err != nil {
		return fmt.Errorf("-key: %w", err)
	}
	key, err := checkpoint.ParsePrivateKey(data)
	if err != nil {
		return fmt.Errorf("-key %s: %w", o.Key, err)
	}
	return run.SignWith(key)
}

// Parse reads the command line, on which nothing but flags may stand.
func Parse() {
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "error: %q is no flag; -help lists them\n", flag.Arg(0))
		os.Exit(2)
	}
}
