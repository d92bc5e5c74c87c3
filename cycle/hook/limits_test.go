package hook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"text/template"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state"
)

// TestLimits tries each limit of a call at its edge.
func TestLimits(t *testing.T) {
	text := func(n int64) string { return strings.Repeat("x", int(n)) }
	limittest.Run(t, []limittest.Limit{
		{Const: "maxAnswer", Max: 4096, Within: func(_ *testing.T, n int64) bool {
			read := 0
			answer := &http.Response{StatusCode: http.StatusBadGateway, Body: io.NopCloser(strings.NewReader(text(n)))}
			_ = new(Address).verdict(answer, func(said []byte) string { read = len(said); return "" })
			return read == int(n)
		}},
		{Const: "maxAnswerHeader", Max: 65_536, Within: func(_ *testing.T, n int64) bool { return n <= newTransport().MaxResponseHeaderBytes }},
		{Const: "maxSaid", Max: 200, Within: func(_ *testing.T, n int64) bool {
			said := strings.Repeat("é", int(n))
			return Hook{}.safeOutput([]byte(said)) == said
		}},
		{Const: "MaxBody", Max: 65_536, Within: func(_ *testing.T, n int64) bool {
			_, err := Hook{Body: template.Must(template.New("").Parse(text(n)))}.Render(state.Announcement{})
			return err == nil
		}},
		{Const: "maxPrinted", Max: 65_536, Within: func(t *testing.T, n int64) bool { return prints(t, n, "") }},
		{Const: "maxPrinted", Max: 65_536, Within: func(t *testing.T, n int64) bool { return prints(t, n, " >&2") }},
		limittest.Duration("DefaultTimeout", 10*time.Second, 1, func(t *testing.T, d time.Duration) (within bool) {
			synctest.Test(t, func(t *testing.T) { // the clock stands still
				h := Hook{Address: &Address{Token: func(ctx context.Context) (string, error) {
					deadline, _ := ctx.Deadline()
					within = d <= time.Until(deadline)
					return "", io.EOF
				}}}
				_ = h.Deliver(t.Context(), Call{})
			})
			return within
		}),
	})
}

// prints reports whether a program may print n bytes.
func prints(t *testing.T, n int64, to string) bool {
	p := Program{Command: []string{"/bin/sh", "-c", fmt.Sprintf("head -c %d /dev/zero%s", n, to)}, Dir: t.TempDir(), Env: os.Environ()}
	return Hook{Timeout: time.Minute, Program: &p}.Deliver(t.Context(), Call{}) == nil
}
