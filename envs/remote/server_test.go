package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/golden"
)

type exchange struct {
	Request struct {
		Method, Path string
		Body         json.RawMessage
	}
	Response struct {
		Status      int
		ContentType string `json:"content_type"`
		Body        json.RawMessage
		BodyText    string `json:"body_text"`
	}
}

// play starts a server that gives one exchange's response, to all requests or only to the recorded one.
func (x exchange) play(t *testing.T, toAll bool) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if !toAll {
			if got := r.Method + " " + r.URL.RequestURI(); got != x.Request.Method+" "+x.Request.Path {
				t.Errorf("asked for %s, recorded is %s %s", got, x.Request.Method, x.Request.Path)
			}
			if len(x.Request.Body) > 0 && !equalJSON(t, body, x.Request.Body) {
				t.Errorf("sent %s, recorded is %s", body, x.Request.Body)
			}
			if r.Header.Get("X-API-Key") != "test-key" {
				t.Error("sent without the key")
			}
		}
		w.Header().Set("Content-Type", x.Response.ContentType)
		w.WriteHeader(x.Response.Status)
		_, _ = w.Write(append(x.Response.Body, x.Response.BodyText...))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func equalJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Errorf("%v: %s, %s", err, a, b)
	}
	return reflect.DeepEqual(x, y)
}

// server connects to an address without asking it what it has.
func server(t *testing.T, address, experiment string, limits Limits) *Server {
	t.Helper()
	limits.Backoff = time.Millisecond
	s, err := connect(ServerConfig{URL: address, Key: "test-key", Experiment: experiment, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// The client sends what a real server understood and reads what it said.
func TestRecordedExchanges(t *testing.T) {
	ran := 0
	for _, path := range golden.Glob(t, "servers/reasoninggym/*.json") {
		var file struct{ Exchanges []exchange }
		if err := json.Unmarshal(golden.Read(t, path), &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for i, x := range file.Exchanges {
			t.Run(golden.Name(t, path)+"/"+strconv.Itoa(i), func(t *testing.T) { x.replay(t) })
			ran++
		}
	}
	t.Logf("%d exchanges", ran)
}

func (x exchange) replay(t *testing.T) {
	address, err := url.Parse(x.Request.Path)
	if err != nil {
		t.Fatal(err)
	}
	name, call := "grpo", ""
	if rest, ok := strings.CutPrefix(address.Path, "/experiments/"); ok {
		name, call, _ = strings.Cut(rest, "/")
	}
	switch ok := x.Response.Status == http.StatusOK; {
	case call == "batch":
		index, _ := strconv.Atoi(address.Query().Get("base_index"))
		n, _ := strconv.Atoi(address.Query().Get("batch_size"))
		tasks, err := server(t, x.play(t, false), name, Limits{}).Tasks(t.Context(), index, n)
		if !ok {
			want := x.reason()
			if index < 0 || n <= 0 {
				want = "must be at least 1 from at least 0" // which the client sees by itself
			}
			wantError(t, err, "task "+strconv.Itoa(index), want)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		x.checkTasks(t, name, tasks)
	case call == "score":
		var request struct{ Answers []entryAnswer }
		var response struct{ Scores []float64 }
		if err := json.Unmarshal(x.Request.Body, &request); err != nil {
			t.Fatal(err)
		}
		s := server(t, x.play(t, false), name, Limits{})
		scores, err := s.scores(t.Context(), request.Answers)
		if !ok {
			a := request.Answers[0]
			wantError(t, err, x.reason())
			if len(request.Answers) == 1 {
				metadata, _ := json.Marshal(map[string]string{"entry_id": a.EntryID})
				_, err = s.Score(t.Context(), envs.Task{ID: "mine/7", Metadata: metadata}, a.Answer)
				wantError(t, err, "task mine/7", x.reason())
			}
			return
		}
		if err := errors.Join(err, json.Unmarshal(x.Response.Body, &response)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(scores, response.Scores) {
			t.Errorf("read %v, recorded is %v", scores, response.Scores)
		}
	case call == "composite" && x.Request.Method == http.MethodGet:
		s, err := Attach(t.Context(), ServerConfig{URL: x.play(t, false), Key: "test-key", Experiment: name})
		if !ok {
			wantError(t, err, x.reason())
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if origin := s.Origin(); origin.Name != "reasoning_gym_server/"+name || !equalJSON(t, origin.Config, x.Response.Body) {
			t.Errorf("origin %s %s", origin.Name, origin.Config)
		}
	case call == "" && x.Request.Method == http.MethodPost:
		x.replayCreate(t)
	case !ok: // what this client never sends is still refused in a way that it must pass on
		_, err := Attach(t.Context(), ServerConfig{URL: x.play(t, true), Key: "test-key", Experiment: name})
		wantError(t, err, "experiment "+name, x.reason())
	default:
		t.Skipf("the client has no use for %s %s", x.Request.Method, x.Request.Path)
	}
}

// reason is what an error must have of a response: the beginning of its detail as it is quoted in the error.
func (x exchange) reason() string {
	var body struct{ Detail json.RawMessage }
	_ = json.Unmarshal(x.Response.Body, &body)
	quoted := excerpt(append(body.Detail, x.Response.BodyText...))
	return quoted[:min(len(quoted)-1, 30)]
}

func (x exchange) checkTasks(t *testing.T, experiment string, tasks []envs.Task) {
	var body struct {
		Entries []struct {
			Question string
			EntryID  string `json:"entry_id"`
			Metadata json.RawMessage
		}
	}
	if err := json.Unmarshal(x.Response.Body, &body); err != nil {
		t.Fatal(err)
	}
	if len(tasks) != len(body.Entries) {
		t.Fatalf("%d tasks of %d", len(tasks), len(body.Entries))
	}
	for i, e := range body.Entries {
		if tasks[i].ID != experiment+"/"+e.EntryID || tasks[i].Question != e.Question || !equalJSON(t, tasks[i].Metadata, e.Metadata) {
			t.Errorf("task %d is %+v, recorded is %+v", i, tasks[i], e)
		}
	}
}

func (x exchange) replayCreate(t *testing.T) {
	var body struct {
		Name     string
		Size     int
		Seed     int64
		Datasets json.RawMessage
	}
	if err := json.Unmarshal(x.Request.Body, &body); err != nil {
		t.Fatal(err)
	}
	experiment := Experiment{Size: body.Size, Seed: body.Seed}
	d := json.NewDecoder(bytes.NewReader(body.Datasets))
	for _, err := d.Token(); err == nil && d.More(); {
		name, err := d.Token()
		spec := Dataset{Weight: 1} // the server's default
		if err := errors.Join(err, d.Decode(&spec)); err != nil {
			t.Fatal(err)
		}
		spec.Name = name.(string)
		experiment.Datasets = append(experiment.Datasets, spec)
	}
	if x.Response.Status != http.StatusOK {
		_, err := Create(t.Context(), ServerConfig{URL: x.play(t, true), Key: "test-key", Experiment: body.Name}, experiment)
		if experiment.Validate() != nil {
			wantError(t, err, "must ")
		} else {
			wantError(t, err, "experiment "+body.Name, x.reason())
		}
		return
	}
	var sent []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == x.Request.Path {
			sent, _ = io.ReadAll(r.Body)
		} else if r.URL.Path != x.Request.Path+"/"+body.Name+"/composite" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_, _ = w.Write(x.Response.Body)
	}))
	defer server.Close()
	s, err := Create(t.Context(), ServerConfig{URL: server.URL + "/", Key: "test-key", Experiment: body.Name}, experiment)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var want bytes.Buffer
	if err := json.Compact(&want, x.Request.Body); err != nil {
		t.Fatal(err)
	}
	if !equalJSON(t, sent, want.Bytes()) {
		t.Errorf("sent %s, recorded is %s", sent, want.Bytes())
	}
	if !equalJSON(t, s.Origin().Config, x.Response.Body) {
		t.Errorf("origin %s", s.Origin().Config)
	}
}

// The server numbers the datasets' seeds by their order, so another order would be other tasks.
func TestCreateKeepsTheOrder(t *testing.T) {
	body, err := Experiment{Size: 1, Datasets: []Dataset{{Name: "b", Weight: 1}, {Name: "a", Weight: 2, Config: map[string]any{"size": 3}}}}.request("e")
	want := `{"name":"e","size":1,"seed":0,"datasets":{"b":{"weight":1,"config":{}},"a":{"weight":2,"config":{"size":3}}}}`
	if err != nil || string(body) != want {
		t.Errorf("got %s, %v", body, err)
	}
}

var scored = envs.Task{ID: "e/1.7", Metadata: json.RawMessage(`{"entry_id":"1.7"}`)}

// Whatever goes wrong on the other side must stop the run with the task's name, and never become a reward.
func TestServerFaults(t *testing.T) {
	reply := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	score := func(score string) http.HandlerFunc {
		return reply(200, `{"scores":[`+score+`],"entry_ids":["1.7"]}`)
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		calls   int // of the server
		want    string
	}{
		{"above 1", score("1.5"), 1, "the score is 1.5, must be in [0,1]"},
		{"below 0", score("-0.1"), 1, "must be in [0,1]"},
		{"NaN", score("NaN"), 1, "the reply is not what it should be"},
		{"beyond float64", score("1e999"), 1, "not what it should be"},
		{"text", score(`"1"`), 1, "not what it should be"},
		{"null", score("null"), 1, "no score"},
		{"two scores", score("1,1"), 1, "2 scores of 1 entries"},
		{"none", score(""), 1, "0 scores"},
		{"another entry", reply(200, `{"scores":[1],"entry_ids":["1.8"]}`), 1, `on entry "1.8", must be on "1.7"`},
		{"empty object", reply(200, `{}`), 1, "0 scores"},
		{"nothing", reply(200, ``), 1, "not what it should be"},
		{"half", reply(200, `{"scores":[1`), 1, "not what it should be"},
		{"more", reply(200, `{"scores":[1],"entry_ids":["1.7"]} {}`), 1, "not what it should be"},
		{"HTML", reply(200, `<html>`), 1, "<html>"},
		{"not UTF-8", reply(200, "{\"scores\":[1],\"entry_ids\":[\"1.7\"],\"x\":\"\xff\"}"), 1, "not UTF-8"},
		{"too long", reply(200, strings.Repeat(" ", 2000)), 1, "more than 1000 bytes"},
		{"refused", reply(400, `{"detail":"no such version"}`), 1, `no such version`},
		{"no key", reply(500, `Internal Server Error`), 1, "is the key right?"},
		{"overwhelmed", reply(503, `{"detail":"busy"}`), 3, "after 3 attempts: the server says 503"},
		{"gone elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, 1, "307"},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 3, "after 3 attempts"},
		{"breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"scores"`)
		}, 3, "the reply broke off"},
		{"late", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client is gone
			<-r.Context().Done()
		}, 1, "no reply within 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				c.handler(w, r)
			}))
			t.Cleanup(h.Close)
			limits := Limits{MaxResponse: 1000, Timeout: time.Minute}
			if c.name == "late" {
				limits.Timeout = time.Second
			}
			got, err := server(t, h.URL, "e", limits).Score(t.Context(), scored, "x")
			wantError(t, err, "task e/1.7", c.want)
			if got != 0 || int(calls.Load()) != c.calls {
				t.Errorf("score %v after %d calls, want %d", got, calls.Load(), c.calls)
			}
		})
	}
}

// A bank of tasks that are not what was asked for would be frozen without anyone noticing.
func TestServerLiesAboutTasks(t *testing.T) {
	for body, want := range map[string]string{
		`{"entries":[]}`: "0 entries, must have 1",
		`{"entries":[{"question":"q","entry_id":"1.8","metadata":{"entry_id":"1.8"}}]}`:  `the entry "1.8" at the place of item 7`,
		`{"entries":[{"question":"q","entry_id":"1.07","metadata":{"entry_id":"1.8"}}]}`: "at the place of item 7",
		`{"entries":[{"question":"q","entry_id":"1.7","metadata":{"entry_id":"2.7"}}]}`:  `has the entry_id "2.7" in its metadata`,
		`{"entries":[{"question":"q","entry_id":"1.7"}]}`:                                "no entry_id",
		`{"entries":[{"question":"q","entry_id":"1.7","metadata":[1]}]}`:                 "the metadata",
		`{"entries":[{"entry_id":"1.7","metadata":{"entry_id":"1.7"}}]}`:                 "no question",
		`{"entries":[{"question":3}]}`:                                                   "not what it should be",
	} {
		x := exchange{}
		x.Response.Status, x.Response.BodyText = 200, body
		_, err := server(t, x.play(t, true), "e", Limits{}).Task(t.Context(), 7)
		wantError(t, err, "task 7 of reasoning_gym_server/e", want)
	}
	_, err := server(t, "http://127.0.0.1:1", "e", Limits{Attempts: 2}).Task(t.Context(), 7)
	wantError(t, err, "task 7 of", "after 2 attempts", "refused")
	_, err = server(t, "http://127.0.0.1:1", "e", Limits{}).Score(t.Context(), envs.Task{ID: "caesar_cipher/42/0"}, "x")
	wantError(t, err, "task caesar_cipher/42/0", "no entry_id")
	x := exchange{}
	x.Response.Status, x.Response.BodyText = 200, `{"name":"other"}`
	_, err = Attach(t.Context(), ServerConfig{URL: x.play(t, true), Experiment: "e"})
	wantError(t, err, "experiment e at", `on an experiment "other"`)
}

// A server that stumbles once must not end a run of hours.
func TestServerRecovers(t *testing.T) {
	var calls atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"answer":"x"`) {
			t.Errorf("attempt %d sent %s", calls.Load(), body)
		}
		switch calls.Add(1) {
		case 1:
			w.WriteHeader(http.StatusBadGateway)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, `{"scores":[0.25],"entry_ids":["1.7"]}`)
		}
	}))
	defer h.Close()
	if got, err := server(t, h.URL, "e", Limits{}).Score(t.Context(), scored, "x"); got != 0.25 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// A whole batch is scored at once; a server for one user must not get it all at once, nor keep a run that was stopped.
func TestServerConcurrencyAndCancellation(t *testing.T) {
	var now, most atomic.Int32
	block := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for n := now.Add(1); n > most.Load(); {
			most.Store(n)
		}
		defer now.Add(-1)
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(10 * time.Millisecond):
		case <-r.Context().Done():
		}
		select {
		case <-block:
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, `{"scores":[1],"entry_ids":["1.7"]}`)
		}
	}))
	defer h.Close()
	s := server(t, h.URL, "e", Limits{Concurrency: 3})
	all := func(ctx context.Context) error {
		var g errgroup.Group
		for range 12 {
			g.Go(func() error {
				_, err := s.Score(ctx, scored, "x")
				return err
			})
		}
		return g.Wait()
	}
	if err := all(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := most.Load(); n < 2 || n > 3 { // 3, but for a machine that is very busy
		t.Errorf("%d calls at a time, want 3", n)
	}
	close(block)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := all(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "task e/1.7") {
		t.Errorf("got %v", err)
	}
}
