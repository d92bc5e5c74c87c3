package heartbeat

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/testkit/limittest"
)

// TestLimits tries each limit of a request to a monitor at its edge. The clock stands
// still.
func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		limittest.Duration("Patience", 3*time.Second, 1, func(t *testing.T, d time.Duration) (within bool) {
			synctest.Test(t, func(t *testing.T) {
				m := Monitor{Address: func(ctx context.Context) (string, error) {
					deadline, _ := ctx.Deadline()
					within = d <= time.Until(deadline)
					return "", io.EOF
				}}
				_, _ = m.Connect(t.Context())
			})
			return within
		}),
		limittest.Duration("maxIdle", 10*time.Second, 1, func(t *testing.T, d time.Duration) (within bool) {
			synctest.Test(t, func(t *testing.T) {
				conn, other := net.Pipe()
				defer conn.Close()
				defer other.Close()
				over, cancel := context.WithCancel(t.Context())
				cancel() // so that no other connection is made
				c := Call{url: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, conn: conn, since: time.Now().Add(-d)}
				_, err := c.take(over, "", "")
				within = err == nil
			})
			return within
		}),
		{Const: "maxAnswer", Max: 4096, Within: func(_ *testing.T, n int64) bool {
			const unknown = "OK (not found)"
			body := strings.Repeat(" ", int(n)-len(unknown)) + unknown
			return verdict(&http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}) != nil
		}},
		{Const: "maxAnswerHeader", Max: 65_536, Within: func(_ *testing.T, n int64) bool { return n <= new(Call).transport().MaxResponseHeaderBytes }},
	})
}
