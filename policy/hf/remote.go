package hf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// blockSize is how much a remote file is read at once.
const blockSize = 8 << 20

// Remote is a model folder on a web server, such as https://huggingface.co/OWNER/NAME/resolve/main, as a file system of files: it
// cannot list. Files are read by HTTP range requests of some megabytes, so that a tensor can be checked without its whole file
// being fetched at once. [Load] and [Verify] take it. A nil client is one that gives up on a request after two minutes. A server that
// does not answer ranges, or answers other bytes than were asked for, gives an error that names the file.
func Remote(ctx context.Context, base string, client *http.Client) (fs.FS, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no http or https address", base)
	}
	if client == nil {
		client = &http.Client{Timeout: 2 * time.Minute}
	}
	return &remote{ctx, u, client}, nil
}

type remote struct {
	ctx    context.Context // fs.FS has no place for one in its methods
	base   *url.URL
	client *http.Client
}

// Open asks for the first block of a file, which also tells its size.
func (r *remote) Open(name string) (fs.File, error) {
	f, err := r.file(name, blockSize)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}

// Stat asks for the first byte.
func (r *remote) Stat(name string) (fs.FileInfo, error) {
	f, err := r.file(name, 1)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return f, nil
}

// file has been asked for its first bytes.
func (r *remote) file(name string, first int64) (*remoteFile, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, fs.ErrInvalid
	}
	f := &remoteFile{remote: r, name: name, url: r.base.JoinPath(name).String(), size: -1}
	return f, f.fetch(0, first)
}

// remoteFile keeps the block that was read last.
type remoteFile struct {
	remote *remote
	name   string
	url    string
	size   int64  // -1 before the first answer
	tag    string // of the content, where the server names it

	mu    sync.Mutex
	at    int64 // where block begins
	block []byte
	next  int64 // of Read
}

// fetch reads the block that begins at an offset.
func (f *remoteFile) fetch(at, length int64) error {
	req, err := http.NewRequestWithContext(f.remote.ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+length-1))
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := f.remote.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var size int64
	switch resp.StatusCode {
	case http.StatusPartialContent:
		begin, total, err := contentRange(resp.Header.Get("Content-Range"))
		if err != nil {
			return err
		}
		if begin != at {
			return fmt.Errorf("the server sent bytes from %d, asked for from %d", begin, at)
		}
		size = total
	case http.StatusOK: // the whole file, which is right if it is a small one
		if at != 0 || resp.ContentLength < 0 || resp.ContentLength > blockSize {
			return errors.New("the server does not answer range requests")
		}
		size = resp.ContentLength
	case http.StatusRequestedRangeNotSatisfiable:
		if at != 0 {
			return fmt.Errorf("the server has no byte %d", at)
		}
		size = 0
	case http.StatusNotFound:
		return fs.ErrNotExist
	default:
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	tag := resp.Header.Get("Etag")
	if f.size >= 0 && (size != f.size || tag != f.tag) {
		return errors.New("the file changed on the server while it was read")
	}
	want := min(length, size-at)
	block := make([]byte, want)
	if resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		if _, err := io.ReadFull(resp.Body, block); err != nil {
			return fmt.Errorf("the answer ended early: %w", err)
		}
	}
	f.size, f.tag, f.at, f.block = size, tag, at, block
	return nil
}

// contentRange reads "bytes 0-9/100".
func contentRange(header string) (begin, total int64, err error) {
	span, size, ok := strings.Cut(strings.TrimPrefix(header, "bytes "), "/")
	first, _, ok2 := strings.Cut(span, "-")
	if ok && ok2 {
		begin, err = strconv.ParseInt(first, 10, 64)
		if err == nil {
			total, err = strconv.ParseInt(size, 10, 64)
		}
	}
	if !ok || !ok2 || err != nil || begin < 0 || total <= begin {
		return 0, 0, fmt.Errorf("the server's Content-Range is %q", header)
	}
	return begin, total, nil
}

// ReadAt reads through the block that was fetched last.
func (f *remoteFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readAt(p, off)
}

func (f *remoteFile) readAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		if at >= f.size {
			return n, io.EOF
		}
		if at < f.at || at >= f.at+int64(len(f.block)) {
			if err := f.fetch(at, blockSize); err != nil {
				return n, fmt.Errorf("%s: %w", f.name, err)
			}
		}
		n += copy(p[n:], f.block[at-f.at:])
	}
	return n, nil
}

// Read reads on.
func (f *remoteFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.readAt(p[:min(int64(len(p)), max(0, f.size-f.next))], f.next)
	f.next += int64(n)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

func (f *remoteFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *remoteFile) Close() error               { return nil }

func (f *remoteFile) Name() string     { return f.name }
func (f *remoteFile) Size() int64      { return f.size }
func (*remoteFile) Mode() fs.FileMode  { return 0o444 }
func (*remoteFile) ModTime() time.Time { return time.Time{} }
func (*remoteFile) IsDir() bool        { return false }
func (*remoteFile) Sys() any           { return nil }
