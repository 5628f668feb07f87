package grpo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy/chat"
	"github.com/grouper-rl/grouper/rescore"
	"github.com/grouper-rl/grouper/verify"
)

// answered rewards every answer but the empty one.
type answered struct{}

func (answered) Grade(_ context.Context, _ envs.Task, reply envs.Reply) (envs.Score, error) {
	if reply.Text == "" {
		return envs.Score{Labels: []string{envs.NoAnswer}}, nil
	}
	return envs.Score{Reward: 1, Value: 1, Labels: []string{envs.Correct}}, nil
}

func letterChat(t *testing.T, source string, r *chat.Reasoning) *chat.Format {
	t.Helper()
	tmpl, err := chat.Parse(source, nil)
	require.NoError(t, err)
	f, err := chat.NewFormat(chat.FormatConfig{Template: tmpl, Reasoning: r})
	require.NoError(t, err)
	return f
}

// A run with a chat template records the template and how replies are divided. Otherwise its rewards could not be checked
// from the record, and it could be resumed with other prompts.
func TestChatTemplateIsRecorded(t *testing.T) {
	b := testbackend.Go(t) // nothing here is computed in a way of its own
	dir := filepath.Join(t.TempDir(), "run")
	s := small()
	s.cfg.Updates = 2
	reasoning := &chat.Reasoning{Open: "h", Close: "c", Opened: true}
	s.chat, s.grader = letterChat(t, "ab{{ messages[0].content|lower|replace('question', 'a') }}", reasoning), answered{}
	s.train(t, b, dir, 2)

	run, err := checkpoint.ReadRunFile(dir)
	require.NoError(t, err)
	require.Equal(t, s.chat.Digest(), run.Digests["template"])
	require.Contains(t, run.Settings, "chat")
	require.Equal(t, reasoning, run.Grader.Reasoning)

	report, err := verify.Run(t.Context(), dir, verify.Options{Grader: func(checkpoint.Grader) (envs.Grader, error) { return answered{}, nil }})
	require.NoError(t, err)
	require.True(t, report.OK(), report)

	again, err := rescore.Run(t.Context(), dir, rescore.Options{Name: "again", Grader: answered{}, Source: run.Grader, Version: "1"})
	require.NoError(t, err)
	require.Zero(t, again.Differ, "labels of another grader are of the answers, too")

	rewarded, reasoned := 0, 0 // so that the check above is one
	rec, err := checkpoint.Read(dir)
	require.NoError(t, err)
	for _, u := range rec.History.Updates {
		file, err := os.Open(filepath.Join(dir, filepath.FromSlash(u.Rollouts.Path)))
		require.NoError(t, err)
		lines, _, err := checkpoint.ReadLines(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		for _, l := range lines {
			rewarded += int(l.Reward)
			if l.Reward == 0 && l.Text != "" {
				reasoned++
			}
			require.Equal(t, l.Reward == 1, strings.Contains(l.Text, "c") && reasoning.Answer(l.Text) != "", l.Text)
		}
	}
	require.Positive(t, rewarded)
	require.Positive(t, reasoned)

	for name, other := range map[string]*chat.Format{
		"digests.template":        letterChat(t, "ab{{ messages[0].content|lower|replace('question', 'b') }}", reasoning),
		"grader.reasoning.opened": letterChat(t, "ab{{ messages[0].content|lower|replace('question', 'a') }}", &chat.Reasoning{Open: "h", Close: "c"}),
	} {
		s.chat = other
		_, err := s.open(t, b, dir)
		require.ErrorIs(t, err, checkpoint.ErrOtherConfiguration)
		require.ErrorContains(t, err, name)
	}
}
