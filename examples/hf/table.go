package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/grpo"
)

// table shows a run, a row an update.
type table struct {
	w     io.Writer
	shown bool
}

// row shows an update: mean reward; share of the groups that teach nothing since all rewards are equal; share of truncated completions;
// completion length; loss; norm of the gradient; entropy; difference between the log-probs of sampling and of training; seconds and peak memory.
func (t *table) row(u *grpo.Update) {
	if m := u.Metrics; m != nil {
		if !t.shown {
			t.shown = true
			fmt.Fprintln(t.w, "update  reward  no signal  truncated  tokens     loss  gradient  entropy    gap  sampling  training  memory")
		}
		fmt.Fprintf(t.w, "%6d  %6.3f  %7.0f %%  %7.0f %%  %6.1f  %+7.4f  %8.3f  %7.3f  %5.0e  %6.1f s  %6.1f s  %s\n", u.Update, m.RewardMean, 100*m.ZeroVariance,
			100*m.Truncated, m.TokensMean, m.Loss, m.GradNorm, m.Entropy, m.EngineGap, u.Timing.Rollout, u.Timing.Train, peakMemory())
	}
	if u.Evaluation != nil {
		fmt.Fprintln(t.w, console.Evaluation(*u.Evaluation))
	}
}

// peakMemory is the most memory that the process had so far, as Linux knows it.
func peakMemory() string {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kilobytes float64
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			if _, err := fmt.Sscan(rest, &kilobytes); err == nil {
				return fmt.Sprintf("%.2f GB", kilobytes*1024/1e9)
			}
		}
	}
	return "unknown"
}
