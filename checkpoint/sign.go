package checkpoint

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/grouper-rl/grouper/internal/guard"
)

// signatureExt ends the name of a receipt's signature: the base64 text of the 64 bytes of an Ed25519 signature (RFC 8032)
// over the receipt's bytes, and a newline.
const signatureExt = ".sig"

// ErrSignature says that a signature is not of the key and the bytes that it should be of.
var ErrSignature = errors.New("the signature does not hold")

// keyPrefix begins the text of a public key.
const keyPrefix = "ed25519:"

// KeyText is a public key as events and reports have it: "ed25519:" and 64 hexadecimal digits.
func KeyText(key ed25519.PublicKey) string { return keyPrefix + hex.EncodeToString(key) }

// ParseKey reads a public key: the text that KeyText gives, or PEM as "openssl pkey -pubout" writes it.
func ParseKey(data []byte) (ed25519.PublicKey, error) {
	text := strings.TrimSpace(string(data))
	if digits, ok := strings.CutPrefix(text, keyPrefix); ok {
		key, err := hex.DecodeString(digits)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("checkpoint: a public key is %s and %d hexadecimal digits, not %q", keyPrefix, 2*ed25519.PublicKeySize, text)
		}
		return key, nil
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("checkpoint: a public key is %s and hexadecimal digits, or PEM", keyPrefix)
	}
	if block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("checkpoint: the PEM block is a %s, not a PUBLIC KEY", block.Type)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: public key: %w", err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("checkpoint: the public key is a %T, not Ed25519", parsed)
	}
	return key, nil
}

// ParsePrivateKey reads a key to sign with: PEM as "grouper keygen" and "openssl genpkey -algorithm ed25519" write it.
func ParsePrivateKey(data []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("checkpoint: a private key is PEM")
	}
	if block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("checkpoint: the PEM block is a %s, not a PRIVATE KEY", block.Type)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: private key: %w", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("checkpoint: the private key is a %T, not Ed25519", parsed)
	}
	return key, nil
}

// CheckSignature checks the content of a .sig file against the receipt's bytes. Errors wrap [ErrSignature].
func CheckSignature(key ed25519.PublicKey, receipt, signature []byte) error {
	raw, err := base64.StdEncoding.Strict().DecodeString(string(bytes.TrimSuffix(signature, []byte{'\n'})))
	switch {
	case err != nil || len(raw) != ed25519.SignatureSize || !bytes.Equal(signature, signatureText(raw)):
		return fmt.Errorf("%w: it is not the base64 text of %d bytes and a newline", ErrSignature, ed25519.SignatureSize)
	case len(key) != ed25519.PublicKeySize:
		return fmt.Errorf("%w: the public key has %d bytes", ErrSignature, len(key))
	case !ed25519.Verify(key, receipt, raw):
		return fmt.Errorf("%w: it is not one by %s over these bytes", ErrSignature, KeyText(key))
	}
	return nil
}

func signatureText(raw []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(nil, raw), '\n')
}

// SignWith has every receipt of this opening signed, with an Ed25519 key: an [ed25519.PrivateKey], or whatever else holds
// one. It is called before Begin; the segment's event names the public key. A run that was signed goes on with the same key or not at
// all: no other could show that the whole record is its owner's. A fork may have another or none.
func (r *Run) SignWith(key crypto.Signer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		return errors.New("checkpoint: SignWith after Begin")
	}
	if key == nil {
		return errors.New("checkpoint: SignWith without a key")
	}
	if private, ok := key.(ed25519.PrivateKey); ok && len(private) != ed25519.PrivateKeySize {
		return fmt.Errorf("checkpoint: the private key has %d bytes, not %d", len(private), ed25519.PrivateKeySize)
	}
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok || len(public) != ed25519.PublicKeySize {
		return fmt.Errorf("checkpoint: the key is a %T, not Ed25519", key.Public())
	}
	r.signer = key
	return nil
}

// sign makes the content of a receipt's .sig file, and checks it: a signer elsewhere may fail in ways of its own.
func sign(key crypto.Signer, receipt []byte) ([]byte, error) {
	var raw []byte
	err := guard.Call("the signer", func() (err error) { raw, err = key.Sign(rand.Reader, receipt, crypto.Hash(0)); return err })
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("signing: the key is a %T, not Ed25519", key.Public())
	}
	text := signatureText(raw)
	return text, CheckSignature(public, receipt, text)
}
