package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/turn/react"
)

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

func callLine(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`+"\n", id, tool)
}

// tool returns a tool without arguments.
func tool(name string, run func(context.Context) (string, error)) react.Tool {
	return react.Tool{Name: name, Description: name, Schema: json.RawMessage(`{"type":"object"}`), Run: func(ctx context.Context, _ json.RawMessage) (string, error) { return run(ctx) }}
}

// safeBuffer may be written and read at the same time.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Every call at the end of the input is answered, and few work at a time.
func TestEveryCallIsAnswered(t *testing.T) {
	var working, most atomic.Int64
	var in strings.Builder
	in.WriteString(hello)
	for i := range 100 {
		in.WriteString(callLine(i+1, "work"))
	}
	var out safeBuffer
	s := Server{Name: "x", Version: "1", Tools: []react.Tool{tool("work", func(context.Context) (string, error) {
		n := working.Add(1)
		defer working.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		time.Sleep(time.Millisecond) // so that calls meet
		return "done", nil
	})}}
	if err := s.Serve(t.Context(), strings.NewReader(in.String()), &out); err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), `"text":"done"`); n != 100 {
		t.Errorf("%d calls were answered", n)
	}
	if most.Load() > maxConcurrentCalls {
		t.Errorf("%d calls were worked on at a time", most.Load())
	}
}

// What ends the turn is a success for the model, and an error a result that says so.
func TestResults(t *testing.T) {
	s := Server{Name: "x", Version: "1", Tools: []react.Tool{
		tool("end", func(context.Context) (string, error) { return "", react.Ending{After: react.Terminate} }),
		tool("wait", func(context.Context) (string, error) {
			return "", react.Ending{After: react.Suspend, Text: "it waits"}
		}),
		tool("fail", func(context.Context) (string, error) { return "", errors.New("it broke") }),
	}}
	var out safeBuffer
	if err := s.Serve(t.Context(), strings.NewReader(hello+callLine(1, "end")+callLine(2, "wait")+callLine(3, "fail")), &out); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`"id":1,"result":{"content":[{"type":"text","text":"done. Your turn ends now."}]}`,
		`"id":2,"result":{"content":[{"type":"text","text":"it waits"}]}`,
		`"id":3,"result":{"content":[{"type":"text","text":"it broke"}],"isError":true}`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}

// A session that is ended cancels its calls.
func TestSessionEndCancelsCalls(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	s := Server{Name: "x", Version: "1", Tools: []react.Tool{tool("hang", func(ctx context.Context) (string, error) {
		close(begun)
		<-ctx.Done()
		return "", ctx.Err()
	})}}
	r, w := io.Pipe()
	defer w.Close()
	go io.WriteString(w, hello+callLine(1, "hang"))
	go func() { <-begun; cancel() }()
	if err := s.Serve(ctx, r, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// An output that cannot be written ends the session.
func TestBrokenOutput(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	in, writes := io.Pipe()
	defer writes.Close()
	go io.WriteString(writes, hello)
	if err := (Server{Name: "x", Version: "1"}).Serve(t.Context(), in, w); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("it ended with %v", err)
	}
}
