package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine limits a message, in bytes. It equals the limit of a relayed request.
const maxLine = 8 << 20

// answerGrace is how long we wait for running calls after the end of the input.
const answerGrace = 10 * time.Second

// lines is the transport: one message per line. The SDK's own transport ends the session at the
// first invalid line. This one answers such a line and reads the next.
type lines struct {
	in      *bufio.Reader
	out     io.Writer
	writing sync.Mutex
	err     error // of a write

	incoming chan incoming
	closed   chan struct{}
	close    sync.Once

	open atomic.Int64 // unanswered requests
}

// incoming is the result of reading one line.
type incoming struct {
	message jsonrpc.Message
	err     error
}

func newLines(in io.Reader, out io.Writer) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), out: out, incoming: make(chan incoming), closed: make(chan struct{})}
}

// Connect returns l itself: it serves one session.
func (l *lines) Connect(context.Context) (mcp.Connection, error) { return l, nil }

// SessionID returns "", since there is only one session.
func (l *lines) SessionID() string { return "" }

// Close stops reading. Writes still work after it.
func (l *lines) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Read returns the next message, or io.EOF.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, io.EOF
	case next := <-l.incoming:
		if r, ok := next.message.(*jsonrpc.Request); ok && r.IsCall() {
			l.open.Add(1)
		}
		if next.err != nil {
			l.await(ctx) // after an error the SDK writes no more answers
		}
		return next.message, next.err
	}
}

// await waits until all requests are answered, but at most for answerGrace.
func (l *lines) await(ctx context.Context) {
	over := time.After(answerGrace)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.open.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-l.closed:
			return
		case <-over:
			return
		case <-tick.C:
		}
	}
}

// Write writes a message.
func (l *lines) Write(_ context.Context, message jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	if _, ok := message.(*jsonrpc.Response); ok {
		defer l.open.Add(-1)
	}
	return l.write(data)
}

func (l *lines) write(data []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.err == nil {
		_, l.err = l.out.Write(append(data, '\n'))
	}
	return l.err
}

// failed returns the error of a write, or nil.
func (l *lines) failed() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.err
}

// read passes on the messages of in, and answers invalid lines.
func (l *lines) read() {
	for {
		line, err := readLine(l.in)
		next := incoming{err: err}
		switch {
		case errors.Is(err, errTooLong):
			if l.refuse(jsonrpc.CodeInvalidRequest, err.Error()) == nil {
				continue
			}
		case err == nil && len(line) == 0:
			continue
		case err == nil && !json.Valid(line):
			if next.err = l.refuse(jsonrpc.CodeParseError, "the line is not JSON"); next.err == nil {
				continue
			}
		case err == nil:
			if next.message, err = jsonrpc.DecodeMessage(line); err == nil {
				break
			}
			if next.err = l.refuse(jsonrpc.CodeInvalidRequest, "the line is not a JSON-RPC 2.0 message"); next.err == nil {
				continue
			}
		}
		select {
		case l.incoming <- next:
		case <-l.closed:
			return
		}
		if next.err != nil {
			return
		}
	}
}

// refuse answers an invalid line with an error.
func (l *lines) refuse(code int64, text string) error {
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": text}})
	if err != nil {
		return err
	}
	return l.write(answer)
}

var errTooLong = errors.New("the message is longer than 8 MiB")

// readLine returns the next line without its newline. It reads a line above maxLine to its end, and
// returns errTooLong. Input without a final newline counts as a line too.
func readLine(in *bufio.Reader) (line []byte, err error) {
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long:
			return nil, errTooLong
		case err != nil && len(line) == 0:
			return nil, err
		}
		return bytes.TrimSpace(line), nil
	}
}
