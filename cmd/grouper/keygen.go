package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/grouper-rl/grouper/checkpoint"
)

type keygenCommand struct {
	File string `arg:"" help:"Where the private key goes; the public one goes to FILE.pub. Neither may exist."`
}

// Run makes a pair of keys in the form that OpenSSL reads and writes, too.
func (c *keygenCommand) Run(out io.Writer) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return err
	}
	if err := writePEM(c.File, "PRIVATE KEY", secret, 0o600); err != nil {
		return err
	}
	if err := writePEM(c.File+".pub", "PUBLIC KEY", open, 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, checkpoint.KeyText(public))
	return err
}

func writePEM(path, kind string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: data}), f.Close())
}
