package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/turn"
)

// inMemory runs do in simulated time with a client that has the default times. Its agent is answer,
// which gets each request and puts its messages into the channel.
func inMemory(t *testing.T, answer func(id json.RawMessage, say chan<- message), do func(*testing.T, *client)) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		c := &client{Settings: Settings{Emit: func(turn.Event) {}}.withDefaults(), out: newWriter(w, nil), messages: make(chan message)}
		go func() {
			for lines := json.NewDecoder(r); ; {
				var m struct{ ID json.RawMessage }
				if lines.Decode(&m) != nil {
					return
				}
				answer(m.ID, c.messages)
			}
		}()
		do(t, c)
		c.out.close()
		r.Close()
	})
}

// isAnsweredWithin reports whether the call of a client succeeds with an answer that takes d.
func isAnsweredWithin(t *testing.T, d time.Duration, call func(*testing.T, *client) error) (ok bool) {
	inMemory(t, func(id json.RawMessage, say chan<- message) {
		time.Sleep(d - 1)
		select {
		case say <- message{ID: id}:
		case <-time.After(time.Hour): // the client has given up
		}
	}, func(t *testing.T, c *client) {
		ok = call(t, c) == nil
		time.Sleep(2 * time.Hour)
	})
	return ok
}

// replayTime has a client wait for an agent that repeats a session, with chatter also before each
// answer. It returns the number of requests to the agent, and their duration.
func replayTime(t *testing.T, chatter bool) (asked int64, took time.Duration) {
	inMemory(t, func(id json.RawMessage, say chan<- message) {
		asked++
		if chatter {
			say <- message{Method: "session/update", Params: []byte(`{}`)}
		}
		say <- message{ID: id}
	}, func(t *testing.T, c *client) {
		begin := time.Now()
		if err := c.awaitReplay(t.Context()); err != nil {
			t.Fatal(err)
		}
		took = time.Since(begin)
	})
	return asked, took
}

func TestLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	limittest.Run(t, []limittest.Limit{
		limittest.Duration("defaultStart", 2*time.Minute, 2, func(t *testing.T, d time.Duration) bool {
			return isAnsweredWithin(t, d, func(t *testing.T, c *client) error {
				_, err := c.call(t.Context(), "initialize", nil, c.StartWithin)
				return err
			})
		}),
		limittest.Duration("defaultCancel", 30*time.Second, 2, func(t *testing.T, d time.Duration) bool {
			return isAnsweredWithin(t, d, func(t *testing.T, c *client) error {
				c.prompting, c.cancelled = true, true
				_, err := c.call(t.Context(), "session/prompt", nil, 0)
				return err
			})
		}),
		limittest.Duration("defaultExit", 3*time.Second, 2, func(t *testing.T, d time.Duration) (waits bool) {
			synctest.Test(t, func(t *testing.T) {
				a := &agent{cmd: &exec.Cmd{Process: &os.Process{}}, quit: make(chan struct{}), exited: make(chan struct{})}
				begin := time.Now()
				a.end(Settings{}.withDefaults().ExitWithin, nil, nil) // it waits, signals and waits, twice
				waits = d <= time.Since(begin)/3
			})
			return waits
		}),
		limittest.Duration("replayWithin", 20*time.Second, 50*time.Millisecond, func(t *testing.T, d time.Duration) bool {
			_, took := replayTime(t, true)
			return d <= took
		}),
		{Const: "replayQuiet", Max: 3, Within: func(t *testing.T, n int64) bool {
			asked, _ := replayTime(t, false)
			return n <= asked
		}},
		limittest.Duration("replayPause", 50*time.Millisecond, time.Millisecond, func(t *testing.T, d time.Duration) bool {
			_, took := replayTime(t, false)
			return d <= took/3
		}),
		{Const: "maxText", Max: 4 << 10, Within: func(t *testing.T, n int64) (whole bool) {
			c := client{Settings: Settings{Emit: func(e turn.Event) { whole = e.Text == x(n) }}}
			c.unknown(x(n))
			return whole
		}},
		{Const: "maxMessage", Max: 16 << 20, Within: func(t *testing.T, n int64) (taken bool) {
			readMessages(strings.NewReader(x(n-1)+"\n"), func(m message) bool { taken = m.skipped == 0; return true })
			return taken
		}},
		{Const: "maxUnsent", Max: 4096, Within: func(t *testing.T, n int64) bool {
			w := &writer{wake: make(chan struct{}, 1)} // without a reader
			var errs []error
			for range n {
				errs = append(errs, w.send(0))
			}
			return errors.Join(errs...) == nil
		}},
		{Const: "maxCalls", Max: 1000, Within: func(t *testing.T, n int64) bool {
			calls := tools{open: map[string]call{}}
			for i := range n {
				calls.remember(call{ID: strconv.Itoa(int(i))})
			}
			_, first := calls.open["0"]
			return first
		}},
		{Const: "maxEnded", Max: 10001, Within: func(t *testing.T, n int64) bool { // all are forgotten with one more
			calls := tools{open: map[string]call{}}
			for i := range n {
				calls.close(strconv.Itoa(int(i)))
			}
			return calls.ended["0"]
		}},
		{Const: "maxInput", Max: 256 << 10, Within: func(t *testing.T, n int64) bool {
			calls := tools{open: map[string]call{}}
			calls.remember(call{ID: "1", Input: []byte(x(n - 1))})
			return calls.open["1"].Input != nil
		}},
		{Const: "maxNamed", Max: 20, Within: func(_ *testing.T, n int64) bool {
			values := strings.Fields(strings.Repeat("v ", int(n)))
			return !strings.Contains(invalidValue("model", "x", values).Error(), "…")
		}},
		{Const: "maxStderr", Max: 2 << 10, Within: func(t *testing.T, n int64) bool {
			var whole, pieces tail
			whole.Write([]byte(x(n)))
			pieces.Write([]byte(x(n - 3)))
			pieces.Write([]byte("xxx"))
			if !bytes.Equal(whole.buf, pieces.buf) {
				t.Errorf("of %d bytes it keeps %d, and in pieces %d", n, len(whole.buf), len(pieces.buf))
			}
			return len(whole.buf) == int(n)
		}},
	})
}
