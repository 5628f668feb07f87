package checkpoint

import "encoding/json"

// File names a file of the run directory with what it must contain.
type File struct {
	Path   string `json:"path"`            // relative to the run directory, with slashes
	SHA256 string `json:"sha256"`          // of its bytes
	Lines  int    `json:"lines,omitempty"` // completions in it, for .jsonl.zst
}

// Line is one graded completion: a line of rollouts/*.jsonl.zst and evals/*.jsonl.zst.
type Line struct {
	Task     string    `json:"task"`   // the task's id in the bank
	Sample   int       `json:"sample"` // which completion of the task's group, from 0
	Seed     int64     `json:"seed"`   // the run's seed, in evaluations the evaluation seed
	Weights  int       `json:"weights_update"`
	Prompt   []int32   `json:"prompt"` // token ids
	Tokens   []int32   `json:"tokens"`
	LogProbs []float32 `json:"logprobs"`          // over the whole vocabulary, at the sampling temperature
	Filtered []float32 `json:"logprobs_filtered"` // under the distribution that was drawn from
	Text     string    `json:"text"`              // the tokens decoded
	Finish   string    `json:"finish"`            // "stop" or "length"
	Reward   float64   `json:"reward"`            // never changes after it is recorded
	Value    float64   `json:"value"`             // the environment's own score
	Labels   []string  `json:"labels"`
}

// Update is the body of a ledger event of kind "update".
type Update struct {
	Update       int             `json:"update"`                  // 1 for the first
	Weights      int             `json:"weights_update"`          // the oldest update whose weights sampled a group
	GroupWeights []int           `json:"group_weights,omitempty"` // of each group, where they are not the same for all
	Tasks        []string        `json:"tasks"`                   // of each group
	SampledIn    []int           `json:"sampled_in,omitempty"`    // the segment that sampled each group, where one was restored from an earlier segment; a fact of the host
	Rollouts     File            `json:"rollouts"`
	DroppedTasks []string        `json:"dropped_tasks,omitempty"` // of the groups that were sampled and left out, as all their rewards are equal
	Dropped      *File           `json:"dropped,omitempty"`       // their completions
	Metrics      json.RawMessage `json:"metrics"`                 // a flat object of numbers; part of the logical content
	Timing       json.RawMessage `json:"host,omitempty"`          // a flat object of seconds and rates; facts of the host
	Segment      int             `json:"-"`                       // that recorded it; filled in by reading
}

// Evaluation is the body of a ledger event of kind "evaluation" and the content of evals/NNNNNN.json.
type Evaluation struct {
	Update      int                `json:"update"`   // whose weights were evaluated; 0 is the base policy
	Accuracy    float64            `json:"accuracy"` // correct / scored
	Correct     int                `json:"correct"`
	Scored      int                `json:"scored"`    // tasks × seeds, fixed before the run
	Truncated   int                `json:"truncated"` // counted as failures
	Seeds       []int64            `json:"seeds"`
	Interval    [2]float64         `json:"interval"`         // 95 % Wilson score interval of the accuracy
	PassAtK     map[string]float64 `json:"pass_at_k"`        // unbiased estimate, keys "1", "2", "4", … up to the number of seeds
	Tasks       []TaskResult       `json:"tasks"`            // in bank order
	Labels      map[string]int     `json:"labels"`           // how many completions carry each label
	MeanTokens  float64            `json:"mean_tokens"`      // completion length
	Bank        string             `json:"bank"`             // digest of the tasks
	WeightsHash string             `json:"weights"`          // digest of the weights
	Sampling    json.RawMessage    `json:"sampling"`         // the settings
	Completions File               `json:"completions"`      // the raw completions
	Receipt     File               `json:"receipt,omitzero"` // see [Receipt]; depends on what was recorded before
	Host        json.RawMessage    `json:"host,omitempty"`   // seconds, backend; facts of the host
	Segment     int                `json:"-"`                // that recorded it; filled in by reading
}

// TaskResult is the outcome of one task of an evaluation.
type TaskResult struct {
	Task    string `json:"task"`
	Correct int    `json:"correct"`
	Scored  int    `json:"scored"`
}

// Segment is the body of a ledger event of kind "segment": one opening of the run.
type Segment struct {
	Segment    int                        `json:"segment"`               // 1 for the first
	Parent     int                        `json:"parent"`                // the segment that it goes on from; 0: none
	Update     int                        `json:"update"`                // the update that it goes on from; 0: the base weights
	Checkpoint string                     `json:"checkpoint,omitempty"`  // the folder that was restored
	Reason     string                     `json:"reason"`                // "start", "resume", or what [Restore] says
	RolledBack *Work                      `json:"rolled_back,omitempty"` // what this takes off the retained trajectory
	Settings   map[string]json.RawMessage `json:"settings,omitempty"`    // the changeable settings as they are from here on
	Versions   map[string]string          `json:"versions,omitempty"`    // of the programs that run this segment
	Host       map[string]any             `json:"host,omitempty"`        // facts of the host
	Signer     string                     `json:"signer,omitempty"`      // the public key by which its receipts are signed, see [KeyText]
	PassedOver []PassedOver               `json:"passed_over,omitempty"`
	Unrecorded []File                     `json:"unrecorded,omitempty"` // what a crash left between a file's writing and its event; nothing counts it
}

// PassedOver is a checkpoint that could not be restored.
type PassedOver struct {
	Checkpoint string `json:"checkpoint"` // its folder
	Reason     string `json:"reason"`
	Files      []File `json:"files"` // as they were found
}

// Saved is the body of a ledger event of kind "checkpoint".
type Saved struct {
	Update   int    `json:"update"`
	Path     string `json:"path"`              // the folder, relative to the run directory
	Manifest string `json:"manifest"`          // SHA-256 of its manifest.json
	Weights  string `json:"weights,omitempty"` // digest of the group "weights", see [WeightsDigest]
	Receipt  File   `json:"receipt,omitzero"`  // see [Receipt]
	Segment  int    `json:"-"`                 // that recorded it; filled in by reading
	Pruned   bool   `json:"-"`                 // it was removed to save space; filled in by reading
}

// Finished is the body of a ledger event of kind "finished": nothing was left to do.
type Finished struct {
	Update  int  `json:"update"`
	Receipt File `json:"receipt,omitzero"` // see [Receipt]
}
