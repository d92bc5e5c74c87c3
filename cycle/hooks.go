package cycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentstateloop/cycle/hook"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// hooks calls the hooks for their waiting events (docs/design.md, "Hooks"). It runs after a
// cycle and next to its turns, so that a slow hook does not delay other work.
type hooks struct {
	committer
	all     []hook.Hook
	standIn func(context.Context, hook.Hook, hook.Call) error // replaces the hook; nil: call the hook itself

	checkEvery time.Duration
	detacher   detacher
	announced  *uint32 // set when this process has committed an event for a hook
}

// hookCalls is a poll's background work of calling hooks.
type hookCalls struct {
	finish chan struct{} // closed when the poll has ended its other work
	late   atomic.Bool   // set: begin no further call
	ended  chan struct{} // closed at the end; then err is set
	err    error
}

// begin calls hooks in the background until wait. It does nothing if no hook is configured, or
// if another process calls the hooks.
func (h *hooks) begin(ctx context.Context) *hookCalls {
	c := &hookCalls{finish: make(chan struct{}), ended: make(chan struct{})}
	if len(h.all) == 0 || h.standIn != nil {
		close(c.ended)
		return c
	}
	go h.secrets.Guarded(func() {
		defer close(c.ended)
		_, c.err = withLock(h.store, store.HookLock, func() error { return h.serve(ctx, c.finish, &c.late) })
	})()
	return c
}

// serve calls all hooks in parallel as rows for them come, until finish is closed and no hook
// has a due row. While one hook is busy, the others are still called for new rows. The caller
// holds hook.lock.
func (h *hooks) serve(ctx context.Context, finish <-chan struct{}, late *atomic.Bool) error {
	errs := make([]error, len(h.all))
	if h.standIn != nil { // the simulator's processes do one thing at a time
		for i, configured := range h.all {
			errs[i] = h.callFor(ctx, configured.Name, late)
		}
		return errors.Join(errs...)
	}
	var wg sync.WaitGroup
	s := &shift{busy: len(h.all), over: make(chan struct{})}
	for i, configured := range h.all {
		wg.Go(h.secrets.Guarded(func() { errs[i] = h.watch(ctx, configured.Name, finish, late, s) }))
	}
	wg.Wait()
	return errors.Join(errs...)
}

// shift is the work of the process that calls the hooks. It is over when all hooks are idle and
// each was called once after the end began.
type shift struct {
	mu   sync.Mutex
	busy int           // hooks that are being called, or were not called since the end began
	over chan struct{} // closed when busy is 0
}

// markIdle notes that one more hook is idle.
func (s *shift) markIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 {
		close(s.over)
	}
}

// markBusy notes that an idle hook is called again. It returns false if the shift is over.
func (s *shift) markBusy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy == 0 {
		return false
	}
	s.busy++
	return true
}

// watch calls one hook as rows for it come: until finish is closed, once more after that, and
// further while other hooks are busy.
func (h *hooks) watch(ctx context.Context, name string, finish <-chan struct{}, late *atomic.Bool, s *shift) error {
	tick := time.NewTicker(h.checkEvery)
	defer tick.Stop()
	for ending := false; ; {
		err := h.callFor(ctx, name, late)
		if ending || err != nil {
			s.markIdle()
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.over:
			return nil
		case <-finish:
			finish, ending = nil, true
			continue // it is busy until that last call
		case <-tick.C:
		}
		if ending && (late.Load() || !s.markBusy()) {
			return nil
		}
	}
}

// wait ends the calling, and begins no call after startWithin. It leaves the remaining rows,
// and rows that another holder of hook.lock may have missed, to a detached process.
func (h *hooks) wait(ctx context.Context, c *hookCalls) error {
	close(c.finish)
	limit := time.AfterFunc(startWithin, h.secrets.Guarded(func() { c.late.Store(true) }))
	<-c.ended
	limit.Stop()
	if h.standIn != nil {
		return errors.Join(c.err, h.call(ctx))
	}
	atomic.StoreUint32(h.announced, 1)
	return errors.Join(c.err, h.leave())
}

// call calls the hooks until no row is due. If another process calls them, that process looks
// once more after it has released the lock.
func (h *hooks) call(ctx context.Context) error {
	now := make(chan struct{})
	close(now)
	for ctx.Err() == nil {
		due, err := h.due()
		if err != nil || !due {
			return err
		}
		held, err := withLock(h.store, store.HookLock, func() error {
			return h.serve(ctx, now, new(atomic.Bool))
		})
		if err != nil || !held {
			return err
		}
	}
	return nil
}

// leave starts a detached process that calls the hooks, if this process has committed events
// for them and no other process calls them.
func (h *hooks) leave() error {
	if atomic.SwapUint32(h.announced, 0) == 0 || h.standIn != nil {
		return nil
	}
	due, err := h.due()
	if err != nil || !due {
		return err
	}
	free, err := withLock(h.store, store.HookLock, func() error { return nil })
	if err != nil || !free {
		return err
	}
	return h.detacher.detachHooks()
}

// due reports whether a hook call is due.
func (h *hooks) due() (bool, error) {
	if len(h.all) == 0 {
		return false, nil
	}
	s, err := h.store.Read()
	return slices.ContainsFunc(s.DueHookCalls(h.now()), func(e state.Effect) bool { return h.index(e.To) >= 0 }), err
}

// index returns the place of a hook, or -1.
func (h *hooks) index(name string) int {
	return slices.IndexFunc(h.all, func(configured hook.Hook) bool { return configured.Name == name })
}

// callFor calls one hook, row after row, until no row is due for it or late is set. The caller
// holds hook.lock. An error concerns the state, not the hook.
func (h *hooks) callFor(ctx context.Context, name string, late *atomic.Bool) error {
	for ctx.Err() == nil && !late.Load() {
		s, err := h.store.Read()
		if err != nil {
			return err
		}
		due := s.DueHookCalls(h.now())
		i := slices.IndexFunc(due, func(e state.Effect) bool { return e.To == name })
		if i < 0 {
			return nil
		}
		bounded, release, err := h.mayBegin(ctx)
		if err != nil {
			h.logf("hook %s: %v", name, err)
			return nil
		}
		event := h.deliver(bounded, due[i])
		release()
		if event == nil {
			return nil // ctx ended: it is called again
		}
		if _, err := h.journal.commit(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

// deliver calls a hook for one row and returns the result, or nil if ctx ended.
func (h *hooks) deliver(ctx context.Context, row state.Effect) state.Event {
	i := h.index(row.To)
	if i < 0 || row.Announces == nil {
		return state.HookFailed{ID: row.ID, Permanent: true, Reason: "the hook is not configured any more"}
	}
	configured := h.all[i]
	body, err := h.store.ReadSummed(row.File, row.Sum)
	if errors.Is(err, store.ErrDamaged) {
		body, err = configured.Render(*row.Announces) // rendered again from the same event
	}
	if err != nil {
		return state.HookFailed{ID: row.ID, Reason: err.Error()}
	}
	deliver := hook.Hook.Deliver
	if h.standIn != nil {
		deliver = func(hk hook.Hook, ctx context.Context, c hook.Call) error { return h.standIn(ctx, hk, c) }
	}
	turn.WithholdLock() // otherwise a program that a turn's poll starts would pass for its agent
	err = deliver(configured, ctx, hook.Call{ID: row.ID, Event: *row.Announces, Body: body})
	if ctx.Err() != nil && err != nil {
		return nil
	}
	if err == nil {
		return state.HookTook{ID: row.ID}
	}
	h.logf("hook %s: %s %s: %v", row.To, row.ID, row.Announces.Event, err)
	failed := state.HookFailed{ID: row.ID, Reason: err.Error()}
	if e, ok := errors.AsType[*hook.Error](err); ok {
		failed.Permanent, failed.RetryAfter = e.Permanent, e.RetryAfter
	}
	return failed
}

// ErrNoHook means that no hook has this name.
var ErrNoHook = errors.New("no such hook in agent.toml")

// CallHooks calls the hooks until no row is due.
func (a *Agent) CallHooks(ctx context.Context) error {
	return errors.Join(a.hooks().call(ctx), a.flusher().reschedule(ctx))
}

// LeaveHooks starts a detached process that calls the hooks for the events that this process
// has committed.
func (a *Agent) LeaveHooks() error { return a.hooks().leave() }

// TestHook calls a hook with a test event, and returns how long it took.
func (a *Agent) TestHook(ctx context.Context, name string) (time.Duration, error) {
	i := slices.IndexFunc(a.Hooks, func(h hook.Hook) bool { return h.Name == name })
	if i < 0 {
		return 0, fmt.Errorf("%q: %w", name, ErrNoHook)
	}
	began := a.Now()
	event := state.Announcement{Event: state.EventTest, ID: "0.0", Agent: a.Handle, At: began.UTC(), Data: state.Details{Reason: "hook test"}}
	body, err := a.Hooks[i].Render(event)
	if err != nil {
		return 0, err
	}
	turn.WithholdLock()
	err = a.Hooks[i].Deliver(ctx, hook.Call{ID: "hook." + store.NewID(), Event: event, Body: body})
	return a.Now().Sub(began), err
}
