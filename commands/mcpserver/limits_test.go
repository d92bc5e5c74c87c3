package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/turn/react"
)

func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "maxLine", Max: 8 << 20, Within: func(t *testing.T, n int64) bool {
			line, err := readLine(bufio.NewReader(strings.NewReader(strings.Repeat("x", int(n)-1) + "\n")))
			return err == nil && len(line) == int(n)-1
		}},
		{Const: "maxConcurrentCalls", Max: 8, Within: func(t *testing.T, n int64) bool {
			within := false
			synctest.Test(t, func(t *testing.T) {
				var begun atomic.Int64
				ctx, cancel := context.WithCancel(t.Context())
				work := newCalls(ctx).handler(react.Tool{Run: func(ctx context.Context, _ json.RawMessage) (string, error) {
					begun.Add(1)
					<-ctx.Done()
					return "", ctx.Err()
				}})
				for range n {
					go work(ctx, &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}})
				}
				synctest.Wait()
				within = begun.Load() == n
				cancel()
			})
			return within
		}},
		limittest.Duration("answerGrace", 10*time.Second, 2, func(t *testing.T, d time.Duration) (awaited bool) {
			synctest.Test(t, func(t *testing.T) {
				l := newLines(nil, nil)
				l.open.Add(1)
				begin := time.Now()
				l.await(t.Context())
				awaited = d <= time.Since(begin)
			})
			return awaited
		}),
		limittest.Duration("cancelGrace", 2*time.Second, 2, func(t *testing.T, d time.Duration) (awaited bool) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				in, client := io.Pipe()
				answers, out := io.Pipe() // without a reader
				served := make(chan time.Time)
				go func() {
					Server{Name: "s", Version: "1"}.Serve(ctx, in, out)
					served <- time.Now()
				}()
				go io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
				synctest.Wait()
				begin := time.Now()
				cancel()
				awaited = d <= (<-served).Sub(begin)
				answers.Close()
				client.Close()
			})
			return awaited
		}),
	})
}
