package listen

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state/store"
)

// TestLimits tries each limit of a listener at its edge.
func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "maxFollowers", Max: 16, Within: func(t *testing.T, n int64) bool {
			return int(n) <= cap(newWeb(t.Context(), &Listener{}).followers)
		}},
		{Const: "maxPolls", Max: 8, Within: func(t *testing.T, n int64) bool {
			var l Listener
			_ = l.Run(t.Context()) // it has no agent to listen for
			return int(n) <= cap(l.pollSlots)
		}},
		limittest.Duration("defaultHeartbeat", 15*time.Second-1, 1, func(t *testing.T, d time.Duration) (within bool) { // without one
			synctest.Test(t, func(*testing.T) {
				f := newStream(httptest.NewRecorder(), 0)
				f.wrote = time.Now()
				time.Sleep(d) // by a clock that moves at once
				_ = f.send(nil)
				within = !f.wrote.Equal(time.Now())
			})
			return within
		}),
		limittest.Duration("followerPatience", 10*time.Second, 1, func(t *testing.T, d time.Duration) (within bool) {
			synctest.Test(t, func(*testing.T) {
				var slow slowFollower
				_ = newStream(&slow, 0).Write("x")
				within = d <= time.Until(slow.until)
			})
			return within
		}),
		{Const: "maxLine", Max: 4096, Within: func(_ *testing.T, n int64) bool {
			line, _, _ := lineReader(strings.NewReader(strings.Repeat("x", int(n)) + "\n")).ReadLine()
			return len(line) == int(n)
		}},
		{Const: "maxPipeRecord", Max: 65_536, Within: func(t *testing.T, n int64) bool {
			st := &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}
			path := filepath.Join(st.Dir, "pipe")
			p, err := (&Listener{Pipe: path}).openPipe([]*servedAgent{{Agent: &cycle.Agent{Store: st}}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.remove()
			text, err := os.ReadFile(st.Path(pipeFile))
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, strings.Repeat(" ", int(n)-len(text))...)
			if err := os.WriteFile(st.Path(pipeFile), text, 0o600); err != nil {
				t.Fatal(err)
			}
			_, left := LeftPipe(st)
			return left
		}},
		{Const: "maxBody", Max: 65_536, Within: func(t *testing.T, n int64) bool { return takes(t, "/nudge", n) }},
		{Const: "maxBody", Max: 65_536, Within: func(t *testing.T, n int64) bool { return takes(t, "/report/wait.1", n) }},
		{Const: "maxMessage", Max: 397_312, Within: func(t *testing.T, n int64) bool { return takes(t, "/message", n) }},
	})
}

// TestPauses checks the pauses after a connection was lost, after a login was refused, and
// after a poll that has failed.
func TestPauses(t *testing.T) {
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	lost, refused, poll := lostPauses(), refusedPauses(), pollPauses()
	limittest.Pauses(t, lost.Next, s, 2*s, 4*s, 8*s, 16*s, 32*s, 64*s, 128*s, 256*s, 5*m, 5*m)
	limittest.Pauses(t, refused.Next, 2*m, 4*m, 8*m, 16*m, 30*m, 30*m)
	limittest.Pauses(t, poll.Next, 100*ms, 200*ms, 400*ms, 800*ms, 1600*ms, 3200*ms, 6400*ms, 12800*ms, 25600*ms, 51200*ms, m, m)
}

// takes reports whether a call may have a body of n bytes. They are spaces, which are an
// empty body.
func takes(t *testing.T, path string, n int64) bool {
	l := &Listener{Token: func(context.Context) (string, error) { return "open sesame", nil }}
	a := &cycle.Agent{Handle: "goulard3120", Store: &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}, Now: time.Now}
	l.serving = []*servedAgent{{Agent: a, listener: l, requested: make(chan struct{}, 1)}}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(strings.Repeat(" ", int(n))))
	r.Header.Set("Authorization", "Bearer open sesame")
	r.Host = "127.0.0.1"
	answer := httptest.NewRecorder()
	newWeb(t.Context(), l).server().Handler.ServeHTTP(answer, r)
	if answer.Code == http.StatusForbidden || answer.Code == http.StatusUnauthorized {
		t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	return answer.Code != http.StatusRequestEntityTooLarge
}

// slowFollower notes until when it may read.
type slowFollower struct {
	http.ResponseWriter
	until time.Time
}

func (f *slowFollower) SetWriteDeadline(t time.Time) error { f.until = t; return nil }

func (f *slowFollower) Write(p []byte) (int, error) { return len(p), nil }

// TestPausesResetAfterSuccess checks that a poll which works ends the growth of the pauses: after
// the next failure they begin again. Each poll takes one of pollSlots, and the test sees when.
func TestPausesResetAfterSuccess(t *testing.T) {
	st := &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}
	synctest.Test(t, func(t *testing.T) {
		l := &Listener{Logf: func(string, ...any) {}, pollSlots: make(chan struct{})}
		p := &servedAgent{Agent: &cycle.Agent{Handle: "goulard3120", Store: st, Now: time.Now}, listener: l, requested: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.run(ctx)
		poll := func() (pause time.Duration) {
			began := time.Now()
			l.pollSlots <- <-l.pollSlots
			return time.Since(began)
		}
		for range 2 {
			other, err := st.TryLock(store.CycleLock) // so the polls fail
			if other == nil {
				t.Fatal(err)
			}
			p.requestPoll()
			poll()
			if pause := poll(); pause == 0 || pause > pollPauses().Min {
				t.Errorf("the first pause is %v", pause)
			}
			poll()
			poll()
			other.Unlock()
			poll() // works
			synctest.Wait()
		}
	})
}
