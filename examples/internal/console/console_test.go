package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
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
