// Package mcpserver offers tools to one client of the Model Context Protocol, on standard input and
// output. It does not depend on what the tools do.
//
//	client ─▶ lines ─▶ the SDK's session ─▶ a tool ─▶ text, or an error that the model reads
package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentstateloop/internal/secret"
	"agentstateloop/turn/react"
)

// Server describes one session.
type Server struct {
	Name, Version string
	Instructions  string // for the model
	Tools         []react.Tool
	Secrets       *secret.Known // redacted in the report of a crash
}

// maxConcurrentCalls is the number of calls that run at the same time. Others wait.
const maxConcurrentCalls = 8

// cancelGrace is how long we wait for running calls after ctx is done.
const cancelGrace = 2 * time.Second

// Serve serves until in ends, out cannot be written, or ctx is done. The end of in is not an error.
// Otherwise Serve returns the write error or the cause of ctx. When in ends, Serve waits up to ten
// seconds for running calls. When ctx is done, it cancels them and waits up to two seconds. It
// writes only the protocol to out. It answers an invalid line of in with an error, and continues.
func (s Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	server := mcp.NewServer(&mcp.Implementation{Name: s.Name, Version: s.Version}, &mcp.ServerOptions{
		Instructions: s.Instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	calls := newCalls(ctx)
	for _, tool := range s.Tools {
		server.AddTool(&mcp.Tool{Name: tool.Name, Description: tool.Description, InputSchema: tool.Schema}, calls.handler(tool))
	}
	wire := newLines(in, out)
	go s.Secrets.Guarded(wire.read)()
	ended := make(chan error, 1)
	go s.Secrets.Guarded(func() { ended <- server.Run(ctx, wire) })()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case <-ended:
		case <-time.After(cancelGrace): // a client that stopped reading holds them up
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return cmp.Or(wire.failed(), err)
}

// calls are the calls of one session.
type calls struct {
	ctx   context.Context // of the session
	slots chan struct{}
}

// newCalls returns the calls of a session that ends with ctx.
func newCalls(ctx context.Context) *calls {
	return &calls{ctx: ctx, slots: make(chan struct{}, maxConcurrentCalls)}
}

// handler returns the SDK's handler for a tool. It returns every error of the tool as text for the
// model, never as an error of the protocol.
func (c *calls) handler(tool react.Tool) mcp.ToolHandler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done():
			return failed(fmt.Errorf("nothing was done: %w", ctx.Err())), nil
		}
		return call(ctx, tool, r.Params.Arguments), nil
	}
}

func call(ctx context.Context, tool react.Tool, args json.RawMessage) *mcp.CallToolResult {
	text, err := tool.Run(ctx, args)
	if end, ends := errors.AsType[react.Ending](err); ends {
		text, err = cmp.Or(end.Text, "done. Your turn ends now."), nil
	}
	if err != nil {
		return failed(err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// failed returns the result that shows a failed call to the model.
func failed(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}
}
