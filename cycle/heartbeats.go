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

// heartbeats calls the monitor once for each poll that ran a cycle (docs/protocol.md, "The
// heartbeat"). The result does not change the state or the report.
type heartbeats struct {
	core
	monitor    *heartbeat.Monitor // nil: no monitor is configured
	turnFailed *uint32            // set when this process has committed the end of a failed turn

	waited *sync.WaitGroup // waits for the requests of all polls of a process; nil: each poll waits for its own
}

// turnPatience is how long the heartbeat of a poll waits for the end of its turns. A turn that
// lasts for hours must not look like a dead machine.
const turnPatience = time.Minute

// failedTurnFile exists until a failed turn has been reported to the monitor.
const failedTurnFile = "heartbeat.fail"

// beat is the heartbeat of one poll. A nil *beat does nothing.
type beat struct {
	heartbeats
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	late   *time.Timer
	over   chan struct{} // closed when the request has ended

	connected chan struct{} // closed when call and err are set
	call      *heartbeat.Call
	err       error
}

// begin connects to the monitor while the poll does its other network work. The caller then
// calls ask, or only end if the poll makes no cycle.
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

// askLater sends the request after turnPatience with the report so far, unless ask comes first.
func (b *beat) askLater(r Report) {
	b.late = time.AfterFunc(cmp.Or(b.monitor.TurnPatience, turnPatience), func() { b.ask(r, nil) })
}

// ask sends the request in the background, once. r and err are the results of the poll.
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

// end waits for the request, at most for the monitor's Patience, or drops it if ask was never
// called.
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
		b.saveFailure() // the turn failed after its poll's request
	}
}

// send makes the request. It only logs a failure.
func (b *beat) send(reason string) {
	if _, release, err := b.mayBegin(b.ctx); err != nil {
		return // another host acts, and reports
	} else {
		release()
	}
	patience := cmp.Or(b.monitor.Patience, heartbeat.Patience)
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	failed := atomic.SwapUint32(b.turnFailed, 0) != 0
	owed := b.failurePending()
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
		_ = os.Remove(b.store.Path(failedTurnFile)) // if this fails, the turn is reported once more
	case err != nil && failed:
		b.saveFailure()
	}
	switch {
	case err == nil, b.ctx.Err() != nil:
	case errors.Is(err, context.DeadlineExceeded):
		b.logf("heartbeat: no answer within %v", patience)
	default:
		b.logf("heartbeat: %v", err)
	}
}

// failurePending reports whether a failed turn has not been reported to the monitor yet.
func (h heartbeats) failurePending() bool {
	info, err := os.Lstat(h.store.Path(failedTurnFile))
	return err == nil && info.Mode().IsRegular()
}

// saveFailure leaves the report of a failed turn to the next poll.
func (h heartbeats) saveFailure() {
	f, err := osfile.OpenFile(h.store.Path(failedTurnFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.logf("heartbeat: cannot save the failed turn for the next request: %v", err)
	}
}

// failures returns the failures of a poll in fixed words, or "". Texts of servers and of mails
// must not reach a monitor.
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
