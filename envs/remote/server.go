package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/envs"
)

// ServerConfig says where an experiment is.
type ServerConfig struct {
	URL        string // "http://127.0.0.1:8000", with the path before /experiments if there is one
	Key        string // the server's REASONING_GYM_API_KEY
	Experiment string // its name on the server
	Limits     Limits
}

// Validate names the field that is wrong.
func (c ServerConfig) Validate() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("ServerConfig.URL must be http://host:port or https://host:port, maybe with a path, without user, query or fragment")
	}
	if c.Experiment == "" || c.Experiment == "." || c.Experiment == ".." || strings.Contains(c.Experiment, "/") {
		return fmt.Errorf("ServerConfig.Experiment is %q, must be a name without a slash", c.Experiment)
	}
	return c.Limits.Validate()
}

// Server is an experiment on an HTTP server of reasoning-gym (tools/server of its repository, at revision
// 49b07130b3fcd12f2d064bba7c43869543a0e7e7). It is an envs.Source, an envs.Env and an envs.Described, and is safe for
// concurrent use.
//
// A task's metadata is upstream's and often has the solution; its Answer is empty, for the server does not say it. The server
// scores by the entry_id in the metadata, which has the version of the dataset's config and the index. It keeps its experiments
// in memory only, so a bank can be scored as long as the experiment is there, and after that by an experiment that was created
// and updated in the same way, which Origin tells; an experiment of the same name that was made otherwise scores other tasks.
//
// A call is repeated after a failed connection and after the statuses 429, 502, 503 and 504, which is safe as neither making nor
// scoring a task changes anything on the server. Redirects are not followed: the key would go elsewhere.
type Server struct {
	config ServerConfig
	limits Limits
	base   string // the experiment's URL
	client *http.Client
	slots  chan struct{}
	origin envs.Origin
}

var (
	_ envs.Described = (*Server)(nil)
	_ envs.Env       = (*Server)(nil)
)

// Attach returns an experiment that is on the server already. Origin has its config as it is now.
func Attach(ctx context.Context, config ServerConfig) (*Server, error) {
	s, err := connect(config)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	if err := s.describe(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("remote: experiment %s at %s: %w", config.Experiment, config.URL, err)
	}
	return s, nil
}

// Create makes an experiment on the server and returns it. The server replaces one of the same name without a word, which is why
// this is tried only once, whatever Limits.Attempts is.
func Create(ctx context.Context, config ServerConfig, experiment Experiment) (*Server, error) {
	if err := experiment.Validate(); err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	s, err := connect(config)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	body, err := experiment.request(config.Experiment)
	if err == nil {
		err = within(ctx, s.limits.Timeout, func(ctx context.Context) error {
			_, err := s.send(ctx, http.MethodPost, strings.TrimRight(config.URL, "/")+"/experiments", body)
			return err
		})
	}
	if err == nil {
		err = s.describe(ctx)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("remote: experiment %s at %s: %w", config.Experiment, config.URL, err)
	}
	return s, nil
}

func connect(config ServerConfig) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	limits := config.Limits.orDefaults(8)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = limits.Concurrency
	return &Server{
		config: config,
		limits: limits,
		base:   strings.TrimRight(config.URL, "/") + "/experiments/" + url.PathEscape(config.Experiment),
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(chan struct{}, limits.Concurrency),
	}, nil
}

func (s *Server) describe(ctx context.Context) error {
	body, err := s.call(ctx, http.MethodGet, "/composite", nil)
	if err != nil {
		return err
	}
	var composite struct {
		Name string `json:"name"`
	}
	if err := decode(body, &composite); err != nil {
		return err
	}
	if composite.Name != s.config.Experiment {
		return fmt.Errorf("the reply is on an experiment %q", composite.Name)
	}
	var config bytes.Buffer
	if err := json.Compact(&config, body); err != nil {
		return err
	}
	s.origin = envs.Origin{Name: s.Name(), Config: config.Bytes()}
	return nil
}

// Name is "reasoning_gym_server/" and the experiment's name.
func (s *Server) Name() string { return "reasoning_gym_server/" + s.config.Experiment }

// Origin is the name with the experiment's config as the server had it when Attach or Create was called: name, size, seed, and
// the datasets with their weights and all their settings.
func (s *Server) Origin() envs.Origin {
	return envs.Origin{Name: s.origin.Name, Config: bytes.Clone(s.origin.Config)}
}

// Close ends the connections that are idle. The experiment stays on the server.
func (s *Server) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Task has item index of the experiment, which is as it is now on the server. The ID is "experiment/entry_id".
func (s *Server) Task(ctx context.Context, index int) (envs.Task, error) {
	tasks, err := s.Tasks(ctx, index, 1)
	if err != nil {
		return envs.Task{}, err
	}
	return tasks[0], nil
}

// Tasks has n items from index on in one request.
func (s *Server) Tasks(ctx context.Context, index, n int) ([]envs.Task, error) {
	tasks, err := s.batch(ctx, index, n)
	if err != nil {
		last := ""
		if n > 1 {
			last = fmt.Sprintf(" to %d", index+n-1)
		}
		return nil, fmt.Errorf("remote: task %d%s of %s: %w", index, last, s.Name(), err)
	}
	return tasks, nil
}

func (s *Server) batch(ctx context.Context, index, n int) ([]envs.Task, error) {
	if index < 0 || n <= 0 {
		return nil, fmt.Errorf("%d tasks from index %d, must be at least 1 from at least 0", n, index)
	}
	body, err := s.call(ctx, http.MethodGet, fmt.Sprintf("/batch?base_index=%d&batch_size=%d", index, n), nil)
	if err != nil {
		return nil, err
	}
	return s.decodeBatch(body, index, n)
}

func (s *Server) decodeBatch(body []byte, index, n int) ([]envs.Task, error) {
	var reply struct {
		Entries []struct {
			Question *string         `json:"question"`
			EntryID  string          `json:"entry_id"`
			Metadata json.RawMessage `json:"metadata"`
		} `json:"entries"`
	}
	if err := decode(body, &reply); err != nil {
		return nil, err
	}
	if len(reply.Entries) != n {
		return nil, fmt.Errorf("the reply has %d entries, must have %d", len(reply.Entries), n)
	}
	tasks := make([]envs.Task, n)
	for i, e := range reply.Entries {
		if _, item, ok := strings.Cut(e.EntryID, "."); !ok || item != strconv.Itoa(index+i) {
			return nil, fmt.Errorf("the reply has the entry %q at the place of item %d", e.EntryID, index+i)
		}
		if e.Question == nil {
			return nil, fmt.Errorf("entry %s has no question", e.EntryID)
		}
		tasks[i] = envs.Task{ID: s.config.Experiment + "/" + e.EntryID, Question: *e.Question, Metadata: e.Metadata}
		if id, err := entryID(tasks[i]); err != nil {
			return nil, err
		} else if id != e.EntryID {
			return nil, fmt.Errorf("entry %s has the entry_id %q in its metadata", e.EntryID, id)
		}
	}
	return tasks, nil
}

// Score is the server's score of an answer to one of its tasks. What is not UTF-8 in the answer reaches it as U+FFFD. Answers
// are sent one by one, because the server judges none of those that come with one it cannot judge.
func (s *Server) Score(ctx context.Context, task envs.Task, answer string) (float64, error) {
	id, err := entryID(task)
	var scores []float64
	if err == nil {
		scores, err = s.scores(ctx, []entryAnswer{{id, answer}})
	}
	if err != nil {
		return 0, fmt.Errorf("remote: task %s: %w", task.ID, err)
	}
	return scores[0], nil
}

// entryID reads from a task's metadata by what name the server knows it.
func entryID(task envs.Task) (string, error) {
	var metadata struct {
		EntryID string `json:"entry_id"`
	}
	if len(task.Metadata) > 0 {
		if err := json.Unmarshal(task.Metadata, &metadata); err != nil {
			return "", fmt.Errorf("the metadata: %w", err)
		}
	}
	if metadata.EntryID == "" {
		return "", errors.New("the metadata has no entry_id, so the task is none of a reasoning-gym server")
	}
	return metadata.EntryID, nil
}

type entryAnswer struct {
	EntryID string `json:"entry_id"`
	Answer  string `json:"answer"`
}

func (s *Server) scores(ctx context.Context, answers []entryAnswer) ([]float64, error) {
	request, err := json.Marshal(map[string]any{"answers": answers})
	if err != nil {
		return nil, err
	}
	body, err := s.call(ctx, http.MethodPost, "/score", request)
	if err != nil {
		return nil, err
	}
	return decodeScores(body, answers)
}

func decodeScores(body []byte, answers []entryAnswer) ([]float64, error) {
	var reply struct {
		Scores   []*float64 `json:"scores"`
		EntryIDs []string   `json:"entry_ids"`
	}
	if err := decode(body, &reply); err != nil {
		return nil, err
	}
	if len(reply.Scores) != len(answers) || len(reply.EntryIDs) != len(answers) {
		return nil, fmt.Errorf("the reply has %d scores of %d entries, must have %d", len(reply.Scores), len(reply.EntryIDs), len(answers))
	}
	scores := make([]float64, len(answers))
	for i, a := range answers {
		if reply.EntryIDs[i] != a.EntryID {
			return nil, fmt.Errorf("the reply is on entry %q, must be on %q", reply.EntryIDs[i], a.EntryID)
		}
		var err error
		if scores[i], err = checked(reply.Scores[i]); err != nil {
			return nil, fmt.Errorf("entry %s: %w", a.EntryID, err)
		}
	}
	return scores, nil
}

// call sends a request that may be repeated, to a path below the experiment's.
func (s *Server) call(ctx context.Context, method, path string, body []byte) (reply []byte, err error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	err = s.limits.retry(ctx, func() error {
		return within(ctx, s.limits.Timeout, func(ctx context.Context) (err error) {
			reply, err = s.send(ctx, method, s.base+path, body)
			return err
		})
	})
	return reply, err
}

func (s *Server) send(ctx context.Context, method, address string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-API-Key", s.config.Key)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, transient{err}
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, int64(s.limits.MaxResponse)+1))
	if err != nil {
		return nil, transient{fmt.Errorf("the reply broke off: %w", err)}
	}
	if len(reply) > s.limits.MaxResponse {
		return nil, fmt.Errorf("the reply has more than %d bytes", s.limits.MaxResponse)
	}
	switch response.StatusCode {
	case http.StatusOK:
		return reply, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return nil, transient{refusal(response.Status, reply)}
	default:
		return nil, refusal(response.Status, reply)
	}
}

// refusal is the error for a status other than 200, with the server's reason where it gives one.
func refusal(status string, body []byte) error {
	var reason struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &reason) == nil && len(reason.Detail) > 0 {
		body = reason.Detail
	}
	// A request without the right key has this status too, for the server's check raises where nobody catches it.
	if strings.HasPrefix(status, "500 ") {
		return fmt.Errorf("the server says %s: %s (is the key right?)", status, excerpt(body))
	}
	return fmt.Errorf("the server says %s: %s", status, excerpt(body))
}
