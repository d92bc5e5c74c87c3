package page

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/internal/testkit/limittest"
)

// timedWriter takes the deadline of an answer.
type timedWriter struct{ *httptest.ResponseRecorder }

func (timedWriter) SetWriteDeadline(time.Time) error { return nil }

// TestServerLimits tries each limit of the server at its edge.
func TestServerLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "maxStreams", Max: 16, Within: func(t *testing.T, n int64) bool {
			var s Server
			s.Handler(t.Context(), nil)
			return int(n) <= cap(s.streams)
		}},
		{Const: "maxReason", Max: 500, Within: func(_ *testing.T, n int64) bool {
			_, err := command{Text: strings.Repeat("x", int(n))}.reason()
			return err == nil
		}},
		{Const: "maxWrong", Max: 10, Within: func(_ *testing.T, n int64) bool {
			var l limiter
			now, limited := time.Now(), false
			for range n {
				_, limited = l.try(now, false)
			}
			return !limited
		}},
		{Const: "maxBody", Max: 262_144, Within: func(_ *testing.T, n int64) bool {
			r := httptest.NewRequest("POST", "/page/act", strings.NewReader(`{}`+strings.Repeat(" ", int(n)-len(`{}`))))
			r.Header.Set("Content-Type", "application/json")
			return decode(httptest.NewRecorder(), r, &command{}) == nil
		}},
		{Const: "maxHost", Max: 100, Within: func(_ *testing.T, n int64) bool {
			return len(inQuotes(strings.Repeat("x", int(n)))) == int(n)+len(`""`)
		}},
		limittest.Duration("sessionTime", 30*24*time.Hour-time.Second, time.Second, func(_ *testing.T, d time.Duration) bool {
			key, now := keyOf("token"), time.Unix(1_800_000_000, 0)
			_, ok := parseCookie(key, newCookie(key, now), now.Add(d))
			return ok
		}),
		limittest.Duration("doubleClick", 10*time.Second-1, 1, func(_ *testing.T, d time.Duration) bool {
			now, m := time.Now(), told{"goulard3120", "hello"}
			s := Server{told: map[told]time.Time{}, Now: func() time.Time { return now }}
			s.tellEnded(m, true)
			return s.secondClick(m, now.Add(d))
		}),
		limittest.Duration("actTime", 50*time.Second, 1, func(t *testing.T, d time.Duration) (within bool) {
			synctest.Test(t, func(*testing.T) {
				see := func(_ *Server, ctx context.Context, _ *cycle.Agent, _ command) (string, error) {
					until, _ := ctx.Deadline()
					within = d <= time.Until(until)
					return "", nil
				}
				_, _ = new(Server).carryOut(timedWriter{httptest.NewRecorder()}, httptest.NewRequest("POST", "/page/act", nil), listen.Shown{Poll: func() {}}, see, command{})
			})
			return within
		}),
	})
}

// TestActOutlivesItsBrowser checks that an act goes on after its browser has disconnected.
func TestActOutlivesItsBrowser(t *testing.T) {
	ctx, disconnect := context.WithCancel(t.Context())
	disconnect()
	polled := false
	do := func(_ *Server, ctx context.Context, _ *cycle.Agent, _ command) (string, error) {
		return "done", ctx.Err()
	}
	r := httptest.NewRequest("POST", "/page/act", nil).WithContext(ctx)
	text, p := new(Server).carryOut(timedWriter{httptest.NewRecorder()}, r, listen.Shown{Poll: func() { polled = true }}, do, command{})
	if text != "done" || p != nil || !polled {
		t.Errorf("the act returned %q, %+v; a poll follows: %v", text, p, polled)
	}
}
