package checkpoint

// LedgerHead names an event, and through it all events before.
type LedgerHead struct {
	Seq  int    `json:"seq"`
	Hash string `json:"hash"`
}

// Digest names a completion: the SHA-256, in hex, of its line as it is recorded, without the newline.
func (l Line) Digest() (string, error) {
	data, err := marshal(l)
	return hexDigest(data), err
}
