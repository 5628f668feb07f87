package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// worker is a process that runs, with one request at a time.
type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	lines  *bufio.Reader // of out
	stderr tail
	most   int // bytes of a reply
	last   int // the id of the last request
	once   sync.Once
}

func (c ProcessConfig) start(mostBytes int) (*worker, error) {
	w := &worker{cmd: exec.Command(c.Command[0], c.Command[1:]...), most: mostBytes}
	w.cmd.Dir, w.cmd.Env = c.Dir, c.Env
	w.cmd.Stderr = &w.stderr
	w.cmd.WaitDelay = time.Second // a child of the program may hold its standard error open
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if w.out, err = w.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	w.lines = bufio.NewReader(w.out)
	return w, nil
}

// ask has one request answered. After any error but a refused one, the process is of no use.
func (w *worker) ask(ctx context.Context, r request) (*reply, error) {
	w.last++
	r.ID = w.last
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, w.interrupt)
	answer, err := w.exchange(append(line, '\n'))
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return decodeReply(answer, r.ID)
}

func (w *worker) exchange(line []byte) ([]byte, error) {
	_, err := w.in.Write(line)
	if err == nil {
		var answer []byte
		answer, err = readLine(w.lines, w.most)
		if err == nil || errors.Is(err, errTooLong) {
			return answer, err
		}
	}
	w.kill() // so that all of standard error is there
	return nil, transient{fmt.Errorf("the program ended without a reply (%s, %w), its standard error ends: %q", w.cmd.ProcessState, err, w.stderr)}
}

// interrupt makes the reads and writes of an exchange fail.
func (w *worker) interrupt() {
	_ = w.cmd.Process.Kill() // it may have ended
	_ = w.in.Close()
	_ = w.out.Close()
}

// kill ends the process and waits until it is gone.
func (w *worker) kill() {
	w.once.Do(func() {
		w.interrupt()
		_ = w.cmd.Wait() // that it was killed is no news
	})
}

var errTooLong = errors.New("the reply is too long")

// readLine returns the next line without its end.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > most+1 {
			return nil, fmt.Errorf("%w: it has more than %d bytes", errTooLong, most)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, fmt.Errorf("%w after %s", io.ErrUnexpectedEOF, excerpt(line))
		default:
			return nil, err
		}
	}
}

func decodeReply(line []byte, id int) (*reply, error) {
	var r reply
	if err := decode(line, &r); err != nil {
		return nil, err
	}
	if r.ID == nil {
		return nil, fmt.Errorf("the reply has no id: %s", excerpt(line))
	}
	if *r.ID != id {
		return nil, fmt.Errorf("the reply has id %d, must have %d", *r.ID, id)
	}
	if r.Error != nil {
		return nil, refused(*r.Error)
	}
	return &r, nil
}

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const most = 2000
	*t = append(*t, p[max(0, len(p)-most):]...)
	*t = append((*t)[:0], (*t)[max(0, len(*t)-most):]...)
	return len(p), nil
}
