package toolserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentstateloop/internal/plain"
	"agentstateloop/turn/box"
)

// The limits on the output of a local server from the start of one call to the start of the
// next. A server that sends more is ended.
const (
	maxMessage  = 16 << 20 // bytes of a line
	maxSent     = 64 << 20 // bytes
	maxLines    = 100_000
	maxRequests = 1000 // from the server; each is answered
)

// process is a server that runs in a sandbox, and the connection to it. Each message is a line.
type process struct {
	in   *os.File // the server's standard input
	out  *os.File // the server's standard output
	errs tail

	cancel context.CancelFunc
	done   chan struct{} // closed when all its processes have ended
	exit   error         // its exit error; valid when done is closed

	scanner  *bufio.Reader
	bytes    atomic.Int64
	lines    atomic.Int64
	requests atomic.Int64

	mu    sync.Mutex
	err   error  // the error that broke the connection
	noise string // the first line that is not a message
	once  sync.Once
}

// spawn starts the program of a server in its sandbox.
func (s Server) spawn(ctx context.Context) (link, error) {
	env := slices.Clone(s.Env)
	for _, name := range slices.Sorted(maps.Keys(s.EnvFiles)) {
		value, err := s.EnvFiles[name](ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		env = append(env, name+"="+value)
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		in.Close()
		return nil, fmt.Errorf("start: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &process{in: in, out: out, cancel: cancel, done: make(chan struct{}), scanner: bufio.NewReaderSize(out, 64<<10)}
	go s.Secrets.Guarded(func() {
		defer close(p.done)
		p.exit = s.Box.Run(ctx, s.Way, box.Program{Argv: s.Command, Env: env, Stdin: theirIn, Stdout: theirOut, Stderr: &p.errs})
		theirIn.Close()
		theirOut.Close()
	})()
	return p, nil
}

func (p *process) transport() mcp.Transport { return p }

// Connect returns p itself. The library calls it once.
func (p *process) Connect(context.Context) (mcp.Connection, error) { return p, nil }

// SessionID returns "": a process has only one session.
func (p *process) SessionID() string { return "" }

func (p *process) renew() {
	p.bytes.Store(0)
	p.lines.Store(0)
	p.requests.Store(0)
}

// Read returns the next answer or request. It skips lines that are not messages, since some
// programs print a greeting. It also skips notifications, because we do not depend on any.
func (p *process) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := p.line()
		if err != nil {
			p.fail(err)
			return nil, err
		}
		msg, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			p.noteNoise(line)
			continue
		}
		req, asks := msg.(*jsonrpc.Request)
		switch {
		case !asks:
			return msg, nil
		case !req.IsCall():
			continue
		case p.requests.Add(1) > maxRequests:
			err := fmt.Errorf("it sent more than %d requests during one call", maxRequests)
			p.fail(err)
			return nil, err
		}
		return msg, nil
	}
}

// line returns the next line of the server's output, within the bounds.
func (p *process) line() ([]byte, error) {
	var line []byte
	for {
		part, err := p.scanner.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case p.bytes.Add(int64(len(part))) > maxSent:
			return nil, fmt.Errorf("it sent more than %s during one call", plain.Size(maxSent))
		case len(line) > maxMessage:
			return nil, fmt.Errorf("it sent a message of more than %s", plain.Size(maxMessage))
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, io.EOF
		case p.lines.Add(1) > maxLines:
			return nil, fmt.Errorf("it sent more than %d messages during one call", maxLines)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
		line = line[:0]
	}
}

// Write sends a message. It waits until the server takes the message, at most until the
// deadline of ctx, or closeTimeout if ctx has no deadline.
func (p *process) Write(ctx context.Context, msg jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(closeTimeout)
	}
	p.mu.Lock() // one message at a time
	defer p.mu.Unlock()
	_ = p.in.SetWriteDeadline(deadline)
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errors.New("it does not read its input")
			p.setBroken(err)
		}
		return err
	}
	return nil
}

// Close ends the server's input, which asks the server to end, and waits a moment. Then it ends
// the sandbox with all its processes.
func (p *process) Close() error {
	p.once.Do(func() {
		p.in.Close()
		select {
		case <-p.done:
		case <-time.After(closeTimeout):
		}
		p.cancel()
		<-p.done
		p.out.Close()
	})
	return nil
}

func (p *process) close() { _ = p.Close() }

// fail records the error that broke the connection.
func (p *process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setBroken(err)
}

func (p *process) setBroken(err error) {
	if p.err == nil {
		p.err = err
	}
}

// noteNoise records a line that is not a message.
func (p *process) noteNoise(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noise == "" {
		p.noise = clip(string(line[:min(len(line), 4*maxNoise)]), maxNoise)
	}
}

const (
	maxNoise = 200 // quoted bytes of a line that is not a message
	maxSaid  = 400 // bytes of a program's last words
)

func (p *process) broken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

// fault describes why the connection broke, or else quotes any output that is not the protocol.
func (p *process) fault() string {
	p.mu.Lock()
	broken, noise := p.err, p.noise
	p.mu.Unlock()
	var words []string
	switch {
	case broken != nil && !errors.Is(broken, io.EOF):
		return broken.Error()
	case broken != nil:
		words = append(words, p.ending())
	}
	if noise != "" {
		words = append(words, fmt.Sprintf("unexpected output: %q", noise))
	}
	if stderr := p.errs.String(); stderr != "" {
		words = append(words, fmt.Sprintf("stderr: %q", stderr))
	}
	return strings.Join(words, "; ")
}

// ending returns in words how the process ended. It waits a moment for the end.
func (p *process) ending() string {
	select {
	case <-p.done:
		if p.exit != nil {
			return "it exited: " + p.exit.Error()
		}
		return "it exited"
	case <-time.After(closeTimeout):
		return "it closed its output"
	}
}

// tail keeps the end of the text written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p[max(0, len(p)-2*maxSaid):]...)
	t.last = append(t.last[:0], t.last[max(0, len(t.last)-2*maxSaid):]...)
	return len(p), nil
}

// String returns the last words as one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(string(t.last[max(0, len(t.last)-maxSaid):]), "")
	return plain.Line(strings.TrimSpace(text))
}

// clip returns a server's text as one line of at most n bytes.
func clip(text string, n int) string {
	line := plain.Line(strings.ToValidUTF8(text, "\uFFFD"))
	if len(line) <= n {
		return line
	}
	return plain.Cut(line, n) + "…"
}
