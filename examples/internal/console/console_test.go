package console

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
)

// childEnv makes the test's process one that ends as an example does.
const childEnv = "GROUPER_TEST_CONSOLE"

func TestMain(m *testing.M) {
	full := errors.New("the disk is full")
	stopped := fmt.Errorf("update 3: %w", context.Canceled)
	switch os.Getenv(childEnv) {
	case "flags":
		fmt.Printf("%+v", Flags("caesar", "adam"))
	case "interrupt":
		Fail(stopped)
	case "interrupt, nothing to save":
		Fail(errors.Join(stopped, nil))
	case "interrupt and full disk":
		Fail(errors.Join(stopped, fmt.Errorf("saving: %w", full)))
	case "wrapped":
		Fail(fmt.Errorf("training: %w", errors.Join(full, stopped)))
	default:
		os.Exit(m.Run())
	}
}

func child(t *testing.T, does string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"="+does)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Whoever presses Ctrl-C reads that everything is kept. If something else failed too, that is not true, and the failure has
// to be shown.
func TestFail(t *testing.T) {
	for _, does := range []string{"interrupt", "interrupt, nothing to save"} {
		out, code := child(t, does)
		require.Contains(t, out, "everything complete is kept", does)
		require.Equal(t, 130, code, does)
	}
	for _, does := range []string{"interrupt and full disk", "wrapped"} {
		out, code := child(t, does)
		require.Contains(t, out, "the disk is full", does)
		require.NotContains(t, out, "everything complete is kept", does)
		require.Equal(t, 1, code, does)
	}
}

// "-updates=5 -quiet" with a forgotten dash must not start a run of a hundred updates.
func TestFlags(t *testing.T) {
	out, code := child(t, "flags", "-updates", "5", "-seed", "3", "-quiet")
	require.Zero(t, code, out)
	require.Contains(t, out, "Optimizer:adam")
	require.Contains(t, out, "Updates:5 EvalEvery:10 Lag:0 Seed:3 Quiet:true")
	out, code = child(t, "flags", "-updates", "5", "quiet")
	require.Equal(t, 2, code)
	require.Contains(t, out, `"quiet" is no flag`)
}

// Whoever gives a key gets a run that is signed with it, or an error that names the flag; not a run without signatures.
func TestSign(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	data, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: data}), 0o600))
	begin := func(o Options) (string, error) {
		dir := filepath.Join(t.TempDir(), "run")
		run, err := checkpoint.Open(dir)
		require.NoError(t, err)
		defer run.Close()
		if err := o.Sign(run); err != nil {
			return "", err
		}
		id, err := testrun.Program{Updates: 1, Every: 1}.Identity()
		require.NoError(t, err)
		_, err = run.Begin(t.Context(), id)
		require.NoError(t, err)
		return run.History().Segments[0].Signer, nil
	}
	signer, err := begin(Options{Key: file})
	require.NoError(t, err)
	require.Equal(t, checkpoint.KeyText(public), signer)
	signer, err = begin(Options{})
	require.NoError(t, err)
	require.Empty(t, signer)
	_, err = begin(Options{Key: file + ".pub"})
	require.ErrorContains(t, err, "-key: ")
	require.NoError(t, os.WriteFile(file, []byte("no key"), 0o600))
	_, err = begin(Options{Key: file})
	require.ErrorContains(t, err, "-key "+file)
	out, code := child(t, "flags", "-key", "mine")
	require.Zero(t, code, out)
	require.Contains(t, out, "Key:mine")
}
