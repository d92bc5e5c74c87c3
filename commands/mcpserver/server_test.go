package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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

// serve runs a server with tools until its input ends, and returns the output.
func serve(t *testing.T, input string, tools ...react.Tool) string {
	t.Helper()
	var out bytes.Buffer
	if err := (Server{Name: "x", Version: "1", Tools: tools}).Serve(t.Context(), strings.NewReader(input), &out); err != nil {
		t.Error(err)
	}
	return out.String()
}

// TestEveryCallIsAnswered checks that every call at the end of the input is answered, and that the
// server limits the number of concurrent calls.
func TestEveryCallIsAnswered(t *testing.T) {
	var working, most atomic.Int64
	input := hello
	for i := range 100 {
		input += callLine(i+1, "work")
	}
	out := serve(t, input, tool("work", func(context.Context) (string, error) {
		n := working.Add(1)
		defer working.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		time.Sleep(time.Millisecond) // so that calls meet
		return "done", nil
	}))
	if n := strings.Count(out, `"text":"done"`); n != 100 {
		t.Errorf("%d calls were answered", n)
	}
	if most.Load() > maxConcurrentCalls {
		t.Errorf("%d calls ran at a time", most.Load())
	}
}

// TestToolResults checks that a call which ends the turn is a success for the model, and an error a
// result that is marked as one.
func TestToolResults(t *testing.T) {
	out := serve(t, hello+callLine(1, "end")+callLine(2, "wait")+callLine(3, "fail"),
		tool("end", func(context.Context) (string, error) { return "", react.Ending{After: react.Terminate} }),
		tool("wait", func(context.Context) (string, error) {
			return "", react.Ending{After: react.Suspend, Text: "it waits"}
		}),
		tool("fail", func(context.Context) (string, error) { return "", errors.New("it broke") }))
	for _, want := range []string{
		`"id":1,"result":{"content":[{"type":"text","text":"done. Your turn ends now."}]}`,
		`"id":2,"result":{"content":[{"type":"text","text":"it waits"}]}`,
		`"id":3,"result":{"content":[{"type":"text","text":"it broke"}],"isError":true}`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// TestSessionEndCancelsCalls checks that the end of the context ends the running calls.
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

// TestBrokenOutputEndsSession checks that the session ends if the client does not read any more.
func TestBrokenOutputEndsSession(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	in, writes := io.Pipe()
	defer writes.Close()
	go io.WriteString(writes, hello)
	if err := (Server{Name: "x", Version: "1"}).Serve(t.Context(), in, w); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("it ended with %v", err)
	}
}
