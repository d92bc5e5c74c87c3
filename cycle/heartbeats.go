package cycle

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentstateloop/cycle/heartbeat"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// heartbeats asks the monitor once for each poll that ran a cycle (docs/design.md, "The
// heartbeat"). What comes of it changes nothing: neither the state, nor the report.
type heartbeats struct {
	core
	monitor    *heartbeat.Monitor // nil: none is asked
	turnFailed *uint32            // this process has committed the end of a turn that failed

	waited *sync.WaitGroup // waits for the requests of all polls of a process; nil: each poll waits for its own
}

// turnPatience is how long the heartbeat of a poll waits for the end of its turns. A turn
// may last for hours, which must not look like a dead machine.
const turnPatience = time.Minute

// failedTurnFile exists while a turn has failed of which the monitor has not heard.
const failedTurnFile = "heartbeat.fail"

// beat is the heartbeat of one poll. A nil *beat does nothing.
type beat struct {
	heartbeats
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	late   *time.Timer
	over   chan struct{} // closed when nothing is under way any more

	connected chan struct{} // closed when these are set
	call      *heartbeat.Call
	err       error
}

// begin connects to the monitor next to the poll's other network work. The caller calls
// ask, or only end if the poll makes no cycle.
func (h heartbeats) begin(ctx context.Context) *beat {
	if h.monitor == nil {
		return nil
	}
	b := &beat{heartbeats: h, over: make(chan struct{}), connected: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(ctx)
	go h.secrets.Guarded(func() {
		defer close(b.connected)
		b.call, b.err = h.monitor.Connect(b.ctx)
	})()
	return b
}

// askLater asks after turnPatience with what is known now, unless ask comes first.
func (b *beat) askLater(r Report) {
	b.late = time.AfterFunc(cmp.Or(b.monitor.TurnPatience, turnPatience), func() { b.ask(r, nil) })
}

// ask asks in the background, once. r and err are what came of the poll.
func (b *beat) ask(r Report, err error) {
	if b == nil {
		return
	}
	b.once.Do(func() {
		reason := failures(r, err)
		go b.secrets.Guarded(func() {
			defer close(b.over)
			b.send(reason)
		})()
	})
}

// end waits for the request, for the monitor's Patience at most, or drops it if it was never
// asked for.
func (b *beat) end() {
	switch {
	case b == nil:
	case b.waited != nil:
		b.waited.Go(b.secrets.Guarded(b.finish))
	default:
		b.finish()
	}
}

func (b *beat) finish() {
	if b.late != nil {
		b.late.Stop()
	}
	b.once.Do(func() { close(b.over) })
	<-b.over
	b.cancel()
	<-b.connected
	if b.call != nil {
		b.call.Close()
	}
	if atomic.SwapUint32(b.turnFailed, 0) != 0 {
		b.owe() // it failed after its poll's request
	}
}

// send makes the request. A failure of it is a line of the log and nothing else.
func (b *beat) send(reason string) {
	patience := cmp.Or(b.monitor.Patience, heartbeat.Patience)
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	failed := atomic.SwapUint32(b.turnFailed, 0) != 0
	owed := b.owes()
	if failed || owed {
		reason = strings.TrimPrefix(reason+", a turn failed", ", ")
	}
	select {
	case <-b.connected:
	case <-ctx.Done():
	}
	err := ctx.Err()
	if err == nil {
		err = b.err
	}
	if err == nil {
		err = b.call.Send(ctx, reason)
	}
	switch {
	case err == nil && owed:
		_ = os.Remove(b.store.Path(failedTurnFile)) // else it is reported once more
	case err != nil && failed:
		b.owe()
	}
	switch {
	case err == nil, b.ctx.Err() != nil:
	case errors.Is(err, context.DeadlineExceeded):
		b.logf("heartbeat: no answer within %v", patience)
	default:
		b.logf("heartbeat: %v", err)
	}
}

// owes reports whether a turn has failed of which the monitor has not heard.
func (h heartbeats) owes() bool {
	info, err := os.Lstat(h.store.Path(failedTurnFile))
	return err == nil && info.Mode().IsRegular()
}

// owe leaves it to the next poll to report a turn that failed.
func (h heartbeats) owe() {
	f, err := osfile.OpenFile(h.store.Path(failedTurnFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.logf("heartbeat: that a turn failed cannot be kept for the next one: %v", err)
	}
}

// failures returns what failed in a poll in fixed words, or "". Texts of servers and of
// mails must not reach a monitor.
func failures(r Report, err error) string {
	var words []string
	for _, f := range r.Failed {
		words = append(words, string(f.Source)+" failed")
	}
	if err != nil {
		words = append(words, "the poll failed")
	}
	return strings.Join(words, ", ")
}

// isFailedTurn reports whether a history line ends a turn that failed or timed out.
func isFailedTurn(l state.Line) bool {
	return l.Kind == state.LineTask && (l.Outcome == state.Failed || l.Outcome == state.Timeout)
}
