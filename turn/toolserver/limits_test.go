package toolserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/turn/react"
)

// memory is a link to a server in memory, whose answers are those of answer; "" is none.
type memory struct {
	answer func(method, cursor string) string
}

func (m memory) transport() mcp.Transport { return m }
func (m memory) close()                   {}
func (m memory) renew()                   {}
func (m memory) broken() bool             { return false }
func (m memory) fault() string            { return "" }

func (m memory) Connect(context.Context) (mcp.Connection, error) {
	w := wire{memory: m, messages: make(chan jsonrpc.Message, 1)}
	w.closed, w.end = context.WithCancel(context.Background())
	return w, nil
}

// wire is a connection with a memory.
type wire struct {
	memory
	messages chan jsonrpc.Message
	closed   context.Context
	end      func()
}

func (w wire) SessionID() string { return "" }
func (w wire) Close() error      { w.end(); return nil }

func (w wire) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case message := <-w.messages:
		return message, nil
	case <-w.closed.Done():
		return nil, io.EOF
	}
}

func (w wire) Write(_ context.Context, message jsonrpc.Message) error {
	request, ok := message.(*jsonrpc.Request)
	if !ok || !request.IsCall() {
		return nil
	}
	var p struct{ Cursor string }
	_ = json.Unmarshal(request.Params, &p) // other requests have no cursor
	if result := w.answer(request.Method, p.Cursor); result != "" {
		w.messages <- &jsonrpc.Response{ID: request.ID, Result: []byte(result)}
	}
	return nil
}

// withMemoryServer has do use a session with a server in memory, in simulated time.
func withMemoryServer(t *testing.T, answer func(method, cursor string) string, do func(t *testing.T, s *Session)) {
	synctest.Test(t, func(t *testing.T) {
		m := memory{answer: func(method, cursor string) string {
			if method == "initialize" {
				return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
			}
			return answer(method, cursor)
		}}
		s := &Session{
			server: Server{Name: "s", URL: "memory", Timeout: time.Second},
			open:   func(context.Context) (link, error) { return m, nil },
		}
		do(t, s)
		s.Close()
	})
}

// listTools returns the session of a server that lists tools by these names on each page.
func listTools(t *testing.T, pages int, names ...string) (got *Session) {
	withMemoryServer(t, func(_, cursor string) string {
		var list mcp.ListToolsResult
		for _, name := range names {
			list.Tools = append(list.Tools, &mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}})
		}
		if len(cursor) < pages-1 {
			list.NextCursor = cursor + "x"
		}
		result, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(result)
	}, func(t *testing.T, s *Session) {
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		got = s
	})
	return got
}

func TestLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	same := func(s string) string { return s }
	prints := func(text string) *process { return &process{scanner: bufio.NewReader(strings.NewReader(text))} }
	limittest.Run(t, []limittest.Limit{
		// The list of tools.
		{Const: "maxTools", Max: 100, Within: func(t *testing.T, n int64) bool {
			var names []string
			for i := range n {
				names = append(names, fmt.Sprintf("tool-%d", i))
			}
			one, two := listTools(t, 1, names...), listTools(t, 2, names...)
			all := len(one.Names()) == int(n)
			if (one.notes == nil) != all || (two.notes == nil) != all {
				t.Errorf("%d tools: the notes %q; on the first of two pages %q", n, one.notes, two.notes)
			}
			return all
		}},
		{Const: "maxPages", Max: 21, Within: func(t *testing.T, n int64) bool { // the first, and 20 more
			return listTools(t, int(n), "a").notes == nil
		}},
		{Const: "maxName", Max: 128, Within: func(t *testing.T, n int64) bool { return len(listTools(t, 1, x(n)).Names()) == 1 }},
		{Const: "maxDescription", Max: 4 << 10, Within: func(t *testing.T, n int64) bool {
			return new(Session).description(&mcp.Tool{Description: x(n)}) == x(n)
		}},
		{Const: "maxSchema", Max: 32 << 10, Within: func(t *testing.T, n int64) bool {
			const rest = `{"default":"","properties":{},"type":"object"}`
			_, err := cleanSchema(map[string]any{"default": x(n - int64(len(rest)))}, same)
			return err == nil
		}},
		{Const: "maxDepth", Max: 16, Within: func(t *testing.T, n int64) bool {
			var schema any = "the lowest level"
			for range n - 1 {
				schema = map[string]any{"items": schema}
			}
			_, err := cleanSchema(schema, same)
			return err == nil
		}},
		{Const: "maxWord", Max: 1000, Within: func(t *testing.T, n int64) bool {
			got, err := cleanSchema(map[string]any{"description": x(n)}, same)
			return err == nil && bytes.Contains(got, []byte(x(n)))
		}},
		{Const: "maxProperty", Max: 64, Within: func(t *testing.T, n int64) bool {
			_, err := cleanSchema(map[string]any{"properties": map[string]any{x(n): true}}, same)
			return err == nil
		}},
		{Const: "maxModelName", Max: 64, Within: func(t *testing.T, n int64) bool {
			name := modelName("s", x(n-3))
			if len(name) > 64 {
				t.Errorf("the name has %d bytes", len(name))
			}
			return name == "s__"+x(n-3)
		}},
		{Const: "most", Max: 5, Within: func(t *testing.T, n int64) bool {
			return joinNotes(strings.Split(x(n), "")) == strings.TrimSuffix(strings.Repeat("x; ", int(n)), "; ")
		}},

		// A result.
		{Const: "maxResult", Max: 64 << 10, Within: func(t *testing.T, n int64) bool { return joinParts([]string{x(n)}) == x(n) }},
		{Const: "maxPictures", Max: 20, Within: func(t *testing.T, n int64) bool {
			s := &Session{server: Server{Keep: func(string, []byte) (react.ShownFile, error) { return react.ShownFile{}, nil }}}
			var errs []error
			for range n {
				_, err := s.keep("draw", nil)
				errs = append(errs, err)
			}
			return errors.Join(errs...) == nil
		}},
		{Const: "maxWords", Max: 1000, Within: func(t *testing.T, n int64) bool {
			return new(Session).reason(errors.New(x(n)), 0) == x(n)
		}},

		// A local server.
		{Const: "maxMessage", Max: 16 << 20, Within: func(t *testing.T, n int64) bool {
			_, err := prints(x(n-1) + "\n").line()
			return err == nil
		}},
		{Const: "maxSent", Max: 64 << 20, Within: func(t *testing.T, n int64) bool {
			p := prints("x\n")
			p.bytes.Store(n - 2)
			_, err := p.line()
			return err == nil
		}},
		{Const: "maxLines", Max: 100_000, Within: func(t *testing.T, n int64) bool {
			p := prints("x\n")
			p.lines.Store(n - 1)
			_, err := p.line()
			return err == nil
		}},
		{Const: "maxRequests", Max: 1000, Within: func(t *testing.T, n int64) bool {
			p := prints(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
			p.requests.Store(n - 1)
			_, err := p.Read(t.Context())
			return err == nil
		}},
		{Const: "maxNoise", Max: 200, Within: func(t *testing.T, n int64) bool {
			var p process
			p.noteNoise([]byte(x(n)))
			return p.noise == x(n)
		}},
		{Const: "maxSaid", Max: 400, Within: func(t *testing.T, n int64) bool {
			var stderr tail
			stderr.Write([]byte(x(n - 3)))
			stderr.Write([]byte("xxx"))
			return stderr.String() == x(n)
		}},

		// A remote server. A body with the whole limit is refused when its end is read.
		{Const: "maxBody", Max: 64<<20 - 1, Within: func(t *testing.T, n int64) bool {
			return isReadable(&boundedBody{ReadCloser: io.NopCloser(strings.NewReader(x(100))), left: maxBody - n + 100, lines: maxBodyLines})
		}},
		{Const: "maxBodyLines", Max: 200_000 - 1, Within: func(t *testing.T, n int64) bool {
			return isReadable(&boundedBody{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("\n", 100))), left: maxBody, lines: maxBodyLines - int(n) + 100})
		}},

		// Calls.
		{Const: "maxLate", Max: 2, Within: func(t *testing.T, n int64) (lives bool) { // the third ends it
			withMemoryServer(t, func(string, string) string { return "" }, func(t *testing.T, s *Session) {
				if err := s.connect(t.Context(), t.Context()); err != nil {
					t.Fatal(err)
				}
				for range n {
					if _, err := s.call(t.Context(), "tool", nil); err == nil {
						t.Error("a call was answered")
					}
				}
				lives = s.endReason == ""
			})
			return lives
		}},
		{Const: "maxRenewals", Max: 3, Within: func(t *testing.T, n int64) (lives bool) {
			withMemoryServer(t, nil, func(t *testing.T, s *Session) {
				if err := s.connect(t.Context(), t.Context()); err != nil {
					t.Fatal(err)
				}
				for range n {
					s.renew(t.Context(), "the session has expired")
				}
				lives = s.endReason == ""
			})
			return lives
		}},
		limittest.Duration("StartTimeout", 30*time.Second, 2, func(t *testing.T, d time.Duration) (started bool) {
			withMemoryServer(t, func(string, string) string {
				time.Sleep(d - 1)
				return `{"tools":[]}`
			}, func(t *testing.T, s *Session) { started = s.start(t.Context()) == nil })
			return started
		}),
	})
}

// isReadable reports whether a body can be read to its end.
func isReadable(b *boundedBody) bool {
	b.note = func(string) {}
	_, err := io.Copy(io.Discard, b)
	return err == nil
}
