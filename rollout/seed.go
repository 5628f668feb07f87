package rollout

// Seed names a completion: its randomness comes from here and from nowhere else.
type Seed [2]uint64
