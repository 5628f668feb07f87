package checkpoint_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
)

// rfc8032 is the third test vector of RFC 8032, section 7.1.
var rfc8032 = struct{ seed, public, message, signature string }{
	"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
	"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
	"af82",
	"6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Anybody with an Ed25519 program must be able to check a signature: it is the plain one of the RFC, over the file's bytes.
func TestCheckSignature(t *testing.T) {
	key := ed25519.PublicKey(unhex(t, rfc8032.public))
	message, raw := unhex(t, rfc8032.message), unhex(t, rfc8032.signature)
	text := base64.StdEncoding.EncodeToString(raw)
	if err := checkpoint.CheckSignature(key, message, []byte(text+"\n")); err != nil {
		t.Error(err)
	}
	other := bytes.Clone(key)
	other[0] ^= 1
	changed := bytes.Clone(raw)
	changed[3] ^= 4
	for name, c := range map[string]struct {
		key           []byte
		message, text string
	}{
		"another key":       {other, string(message), text + "\n"},
		"no key":            {nil, string(message), text + "\n"},
		"another message":   {key, "af83", text + "\n"},
		"a changed bit":     {key, string(message), base64.StdEncoding.EncodeToString(changed) + "\n"},
		"no newline":        {key, string(message), text},
		"two newlines":      {key, string(message), text + "\n\n"},
		"a newline in it":   {key, string(message), text[:8] + "\n" + text[8:] + "\n"},
		"cut off":           {key, string(message), text[:80] + "\n"},
		"other last bits":   {key, string(message), strings.Replace(text, "Cg==", "Ch==", 1) + "\n"},
		"nothing":           {key, string(message), ""},
		"hexadecimal":       {key, string(message), rfc8032.signature + "\n"},
		"the raw signature": {key, string(message), string(raw)},
	} {
		if err := checkpoint.CheckSignature(c.key, []byte(c.message), []byte(c.text)); !errors.Is(err, checkpoint.ErrSignature) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// A key that was read wrongly would verify nothing, or something else.
func TestParseKey(t *testing.T) {
	key := ed25519.PublicKey(unhex(t, rfc8032.public))
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"text": checkpoint.KeyText(key), "text with newline": checkpoint.KeyText(key) + "\n", "PEM": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
	} {
		if got, err := checkpoint.ParseKey([]byte(text)); err != nil || !got.Equal(key) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKIXPublicKey(&curve.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"hexadecimal digits, or PEM": "hello",
		"64 hexadecimal digits":      "ed25519:abcd",
		"PRIVATE KEY":                string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"not Ed25519":                string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: other})),
		"public key: ":               string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der[1:]})),
	} {
		if _, err := checkpoint.ParseKey([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, expected one that says %q", text, err, want)
		}
	}
}

// A program that reads its key from a file must get that key or hear what the file is.
func TestParsePrivateKey(t *testing.T) {
	key := ed25519.NewKeyFromSeed(unhex(t, rfc8032.seed))
	encode := func(kind string, key any) []byte {
		data, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
	}
	if got, err := checkpoint.ParsePrivateKey(encode("PRIVATE KEY", key)); err != nil || !got.Equal(key) {
		t.Errorf("the key is %v, %v", got, err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, data := range map[string][]byte{
		"is PEM": []byte("abc"), "a PUBLIC KEY, not a PRIVATE KEY": encode("PUBLIC KEY", key), "not Ed25519": encode("PRIVATE KEY", curve),
		"checkpoint: private key: ": []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
	} {
		if _, err := checkpoint.ParsePrivateKey(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, expected one that says %q", err, want)
		}
	}
}

// broken is a signer elsewhere that fails or gives something else.
type broken struct {
	ed25519.PrivateKey
	err error
}

func (b broken) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return make([]byte, ed25519.SignatureSize), b.err
}

// A run that was to be signed and is not would be worth nothing to whoever checks it: what cannot sign stops the run at once, and
// nothing that it did not sign is recorded.
func TestSignWith(t *testing.T) {
	private := ed25519.NewKeyFromSeed(unhex(t, rfc8032.seed))
	if got := hex.EncodeToString(private.Public().(ed25519.PublicKey)); got != rfc8032.public {
		t.Fatalf("public key %s", got)
	}
	r := mustOpen(t, filepath.Join(t.TempDir(), "run"))
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, key := range map[string]crypto.Signer{"without a key": nil, "not Ed25519": curve, "has 3 bytes": ed25519.PrivateKey("abc")} {
		if err := r.SignWith(key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, expected one that says %q", err, want)
		}
	}
	for name, signer := range map[string]broken{"out of reach": {private, errors.New("the card is gone")}, "does not hold": {private, nil}} {
		r := mustOpen(t, filepath.Join(t.TempDir(), "run"))
		if err := r.SignWith(signer); err != nil {
			t.Fatal(err)
		}
		p := program
		p.Key = nil // SignWith was called
		if err := p.Run(t.Context(), r); err == nil || signer.err != nil && !errors.Is(err, signer.err) || signer.err == nil && !errors.Is(err, checkpoint.ErrSignature) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if h := r.History(); len(h.Checkpoints)+len(h.Evaluations) > 0 {
			t.Errorf("%s: something was recorded without a signature", name)
		}
	}
	p := program
	p.Key = private
	if err := p.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := r.SignWith(private); err == nil {
		t.Error("a key was taken in the middle of a segment")
	}
}

// A run that is signed in part is worth nothing to whoever demands its key: going on without that key, or with another, is refused before
// anything is written. A fork has receipts of its own.
func TestGoingOnWithoutTheKey(t *testing.T) {
	p := program
	p.Stop = 3
	dir := finished(t, p)
	before := tree(t, dir)
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	for name, key := range map[string]ed25519.PrivateKey{"nothing": nil, checkpoint.KeyText(other.Public().(ed25519.PublicKey)): other} {
		p := program
		p.Key = key
		r := mustOpen(t, dir)
		err := p.Run(t.Context(), r)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		want := []string{"signed with " + checkpoint.KeyText(program.Key.Public().(ed25519.PublicKey)), "signs with " + name, "Run.SignWith", "checkpoint.Fork", "another directory"}
		for _, w := range want {
			if !errors.Is(err, checkpoint.ErrOtherConfiguration) || !strings.Contains(err.Error(), w) {
				t.Errorf("the error is %v, expected one that says %q", err, w)
			}
		}
		if !maps.Equal(before, tree(t, dir)) {
			t.Error("a refused opening has changed the directory")
		}
	}
	p.Key, p.Stop = nil, 0
	child := forked(t, dir, checkpoint.Restore{Update: 2}, "child")
	goOn(t, p, child)
	goOn(t, program, dir)
	verified(t, child)
	verified(t, dir)
}

// A key may come from anywhere: what is none is an error, and what is one is that one.
func FuzzParseKey(f *testing.F) {
	key := ed25519.PublicKey(unhex(f, rfc8032.public))
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(checkpoint.KeyText(key)))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	f.Add([]byte("ed25519:"))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := checkpoint.ParseKey(data)
		if err != nil {
			return
		}
		if again, err := checkpoint.ParseKey([]byte(checkpoint.KeyText(key))); err != nil || !again.Equal(key) {
			t.Errorf("%q gives %v, and that %v, %v", data, key, again, err)
		}
		if err := checkpoint.CheckSignature(key, data, data); !errors.Is(err, checkpoint.ErrSignature) {
			t.Errorf("nothing signed this: %v", err)
		}
	})
}
