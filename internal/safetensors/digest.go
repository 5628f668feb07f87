package safetensors

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// digestNames are the names of element types in digests, which are those of GoMLX.
var digestNames = map[DType]string{
	"BOOL": "Bool", "U8": "Uint8", "I8": "Int8", "I16": "Int16", "U16": "Uint16", "F16": "Float16", "BF16": "BFloat16",
	"I32": "Int32", "U32": "Uint32", "F32": "Float32", "F64": "Float64", "I64": "Int64", "U64": "Uint64", "C64": "Complex64",
}

// DigestHead is what is hashed before a tensor's bytes, so that a digest names type and shape too; as in policy.TensorDigest.
func DigestHead(d DType, shape []int) string {
	name, ok := digestNames[d]
	if !ok {
		name = string(d)
	}
	return fmt.Sprintf("%s %v\x00", name, shape)
}

// Digest is the SHA-256, in hex, of a tensor's dtype, shape and bytes. It reads the data.
func (t Tensor) Digest() (string, error) {
	h := sha256.New()
	io.WriteString(h, DigestHead(t.DType, t.Shape))
	if err := t.Data(func(p []byte) error { h.Write(p); return nil }); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
