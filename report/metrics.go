package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/grouper-rl/grouper/checkpoint"
)

// rewardMean is the metric of the training curve, see [checkpoint.Figures].
const rewardMean = "reward_mean"

// update is an update with its numbers, each as it stands in the ledger.
type update struct {
	update, weights int
	reward          float64
	metrics, host   map[string]json.Number
}

func readUpdates(recorded []checkpoint.Update) ([]update, error) {
	updates := make([]update, len(recorded))
	for i, r := range recorded {
		u := update{update: r.Update, weights: r.Weights}
		bad := func(what string, err error) error {
			return fmt.Errorf("%w: ledger.jsonl, update %d: %s: %w", checkpoint.ErrDamaged, r.Update, what, err)
		}
		if err := json.Unmarshal(r.Metrics, &u.metrics); err != nil {
			return nil, bad("metrics", err)
		}
		if len(r.Timing) > 0 {
			if err := json.Unmarshal(r.Timing, &u.host); err != nil {
				return nil, bad("host", err)
			}
		}
		var err error
		if u.reward, err = u.metrics[rewardMean].Float64(); err != nil {
			return nil, bad("metric "+rewardMean, err)
		}
		updates[i] = u
	}
	return updates, nil
}

// evaluationColumns are empty in the rows of updates without an evaluation.
var evaluationColumns = []string{
	"eval_accuracy", "eval_correct", "eval_scored", "eval_truncated", "eval_interval_low", "eval_interval_high", "eval_mean_tokens",
}

// writeCSV writes a row an update. Columns are update, weights_update, the metrics by name, the facts of the host by
// name after "host_", and the evaluation of the weights that the update made. The evaluation of the base weights has
// a row of its own, update 0. Numbers stand as they were recorded.
func writeCSV(w io.Writer, updates []update, evaluations []checkpoint.Evaluation) error {
	metrics, host := map[string]bool{}, map[string]bool{}
	for _, u := range updates {
		for name := range u.metrics {
			metrics[name] = true
		}
		for name := range u.host {
			host[name] = true
		}
	}
	metricNames, hostNames := slices.Sorted(maps.Keys(metrics)), slices.Sorted(maps.Keys(host))
	header := append([]string{"update", "weights_update"}, metricNames...)
	for _, name := range hostNames {
		header = append(header, "host_"+name)
	}
	evaluated := map[int]checkpoint.Evaluation{}
	for _, e := range evaluations {
		evaluated[e.Update] = e
	}
	if _, base := evaluated[0]; base {
		updates = append([]update{{}}, updates...)
	}
	out := csv.NewWriter(w)
	if err := out.Write(append(header, evaluationColumns...)); err != nil {
		return err
	}
	for _, u := range updates {
		row := []string{strconv.Itoa(u.update), strconv.Itoa(u.weights)}
		for _, name := range metricNames {
			row = append(row, u.metrics[name].String())
		}
		for _, name := range hostNames {
			row = append(row, u.host[name].String())
		}
		if e, ok := evaluated[u.update]; ok {
			row = append(row, number(e.Accuracy), strconv.Itoa(e.Correct), strconv.Itoa(e.Scored), strconv.Itoa(e.Truncated),
				number(e.Interval[0]), number(e.Interval[1]), number(e.MeanTokens))
		} else {
			row = append(row, make([]string, len(evaluationColumns))...)
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
