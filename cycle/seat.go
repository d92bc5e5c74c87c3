package cycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// SeatError means that the servers did not tell who acts for the agent, so this host does nothing.
type SeatError struct{ Err error }

func (e *SeatError) Error() string { return "cannot ask the servers who acts: " + e.Err.Error() }
func (e *SeatError) Unwrap() error { return e.Err }

// hold is the first act of a poll of an agent with several hosts (package fleet/seat). It returns
// nil if this host acts. The error of a standby is a *seat.StandbyError.
func (p *poller) hold(ctx context.Context) error {
	if p.seat == nil {
		return nil
	}
	if err := p.sweep(ctx); err != nil {
		return err
	}
	err := p.seat.Look(context.WithoutCancel(ctx))
	if standby, ok := errors.AsType[*seat.StandbyError](err); ok {
		if err := p.tidy(); err != nil {
			p.logf("remove old files: %v", err)
		}
		return standby
	}
	if err != nil {
		return p.seatError(err)
	}
	return p.takeSeat(ctx)
}

// tidy removes old files from the directory of a standby, once a day. Everywhere else the removal is
// a part of a cycle.
func (p *poller) tidy() error {
	due, err := p.seat.DueDaily()
	if err != nil || !due || p.cycle.pruner.keep == 0 {
		return err
	}
	s, err := p.store.Read()
	if err != nil {
		return err
	}
	_, err = p.cycle.pruner.removeOld(s)
	return err
}

// seatError sorts an error of package seat.
func (c core) seatError(err error) error {
	_, standby := errors.AsType[*seat.StandbyError](err)
	_, trouble := errors.AsType[*seat.TroubleError](err)
	if err == nil || standby || trouble {
		return err
	}
	return &SeatError{err}
}

// serversFailed makes a SeatError of an error of a commit that the servers did not answer.
func (c core) serversFailed(err error) error {
	_, unanswered := errors.AsType[*fleet.Error](err)
	if c.seat == nil || isStandby(err) || !unanswered && !errors.Is(err, seat.ErrUnsure) {
		return err
	}
	return &SeatError{err}
}

// isStandby reports whether err says that another host acts.
func isStandby(err error) bool {
	_, standby := errors.AsType[*seat.StandbyError](err)
	return standby
}

// acts returns a *seat.StandbyError or *seat.TroubleError if another host acts, as far as it is
// known here. A verb that keeps a file for its commit calls it first.
func (c core) acts() error {
	if c.seat == nil {
		return nil
	}
	return c.seat.Here()
}

// takeSeat commits that this host acts, once for each term. A host that took the seat and died
// commits it at its next poll.
func (p *poller) takeSeat(ctx context.Context) error {
	v, err := p.seat.View()
	if err != nil {
		return err
	}
	s, err := p.store.Read()
	if err != nil || !v.Here || s.Seat == (state.Seat{Host: v.Holder, Term: v.Term}) {
		return err
	}
	if err := p.fileSent(s); err != nil {
		return err
	}
	held, err := p.cycle.sweeper.folder.Count() // the quarantine is of this host
	if err != nil {
		return err
	}
	_, err = p.cycle.journal.commit(ctx, state.TookSeat{Host: v.Holder, Term: v.Term}, state.QuarantineHolds{Items: held})
	return err
}

// fileSent moves mails that the host before has sent from outbox/, where the servers list them, to
// sent/: our text is found there in answers to them.
func (p *poller) fileSent(s state.State) error {
	waiting := map[string]bool{}
	for _, name := range named(s, func(string, string) []string { return nil }) {
		waiting[name] = true
	}
	entries, err := os.ReadDir(p.store.Path(store.OutboxDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name := path.Join(store.OutboxDir, e.Name())
		if path.Ext(name) != ".eml" || waiting[name] {
			continue
		}
		if err := p.store.Move(name, path.Join(store.SentDir, strings.ToLower(e.Name()))); err != nil {
			return err
		}
	}
	return err
}

// sweep kills an agent that works here although the lease is over or the seat is lost, even if the
// runner of its turn lives: that may be stopped (F3). It uses no network.
func (c core) sweep(ctx context.Context) error {
	if fence, _ := c.seat.Fence(); fence != seat.Kill {
		return nil
	}
	s, err := c.store.Read()
	if err != nil {
		return err
	}
	return c.evict(ctx, s)
}

// Evict is seat.Seat.Evict.
func (a *Agent) Evict(ctx context.Context, s state.State) error { return a.core().evict(ctx, s) }

// evict kills the agent that works here for the turn of a state.
func (c core) evict(ctx context.Context, s state.State) error {
	dirs := []string{summaryDir()}
	if s.Turn.NeedsRunner() && !s.Turn.Pulled {
		dirs = append(dirs, store.AttemptDir(s.Turn.TurnID, s.Turn.Epoch))
	}
	for _, name := range dirs {
		dir := c.store.Path(name)
		held, _, err := turn.Probe(dir)
		if err == nil && held {
			err = os.WriteFile(filepath.Join(dir, evictedFile), nil, 0o600)
		}
		if err == nil {
			_, err = c.endAgent(ctx, dir, 0)
		}
		if err != nil {
			return fmt.Errorf("kill the agent in %s, because the seat is lost: %w", name, err)
		}
	}
	return nil
}

// evictedFile is in the folder of an attempt whose agent was killed because the seat was lost. Its
// runner may have been stopped meanwhile, and would take that for a failure of the agent.
const evictedFile = "evicted"

// evicted reports whether another process has killed the agent in dir because the seat was lost.
func (c core) evicted(dir string) bool {
	if c.seat == nil {
		return false
	}
	_, err := os.Lstat(filepath.Join(dir, evictedFile))
	return err == nil
}

// mayBegin returns a context for an effect that ends before the lease does, or the reason why no
// effect may begin now (F1).
func (c core) mayBegin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if c.seat == nil {
		return ctx, func() {}, nil
	}
	left, err := c.seat.MayBegin()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	return ctx, cancel, nil
}

// orphaned reports whether the turn of the host before must be left alone (F6).
func (c core) orphaned(s state.State) (bool, error) {
	if c.seat == nil || !s.Turn.NeedsRunner() {
		return false, nil
	}
	wait, err := c.seat.Orphaned()
	return wait > 0, err
}

// fence ends what works under the context when the seat is lost or its lease ends: cancel is called
// for TERM, and the agent in dir is killed when even that is too late (F2). It beats meanwhile.
func (c core) fence(ctx context.Context, dir string, cancel context.CancelCauseFunc) {
	if c.seat == nil {
		return
	}
	go c.secrets.Guarded(func() {
		for c.rest(ctx, c.seat.BeatEvery()) {
			if _, lost := errors.AsType[*seat.StandbyError](c.seat.Beat(context.WithoutCancel(ctx))); lost {
				cancel(errLost)
			}
		}
	})()
	go c.secrets.Guarded(func() {
		for {
			fence, again := c.seat.Fence()
			switch fence {
			case seat.Term:
				cancel(errLost)
			case seat.Kill, seat.Unknown:
				cancel(errLost)
				_, _ = c.endAgent(context.WithoutCancel(ctx), dir, 0) // the sweep of the next poll tries again
				return
			}
			waiting := ctx
			if fence == seat.Term {
				waiting = context.WithoutCancel(ctx) // the agent may not obey
			}
			if !c.rest(waiting, min(again, fenceEvery)) {
				return
			}
		}
	})()
}

// fenceEvery is how often the lease is compared with the clock: another process may have lost the
// seat.
const fenceEvery = 500 * time.Millisecond

// rest waits. It returns false if ctx ended first.
func (c core) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxTurnFiles limits the files of one turn that other hosts get: an agent may unpack a whole library
// into its output folder.
const maxTurnFiles = 1000

// NamedFiles returns a function that lists what another host needs of a state directory: the files
// that a state names, and those of the turns that go on.
func NamedFiles(st *store.Store) func(state.State) []string {
	inMessages := map[string][]string{} // the files of a payload, by its sum; payloads do not change
	filesOf := func(payload, sum string) []string {
		if names, known := inMessages[sum]; known {
			return names
		}
		names := []string{}
		for _, f := range (files.Incoming{Store: st}).FilesIn(payload, sum) {
			names = append(names, f.Name)
		}
		if sum != "" && len(names) > 0 { // none may mean that the payload could not be read
			inMessages[sum] = names
		}
		return names
	}
	return func(s state.State) []string {
		names := append(named(s, filesOf), store.MemoryFile, store.MemoryDir)
		for _, id := range s.TurnsInUse() {
			ofTurn := st.TurnFiles(s, id)
			names = append(names, ofTurn[:min(len(ofTurn), maxTurnFiles)]...)
		}
		for _, l := range s.Lines {
			names = append(names, l.OutputBox)
		}
		for _, e := range s.HookCalls {
			if e.Announces != nil {
				names = append(names, e.Announces.Data.OutputBox) // the hook may read it
			}
		}
		return append(names, s.Turn.Box)
	}
}

// named returns the files that a state names. filesOf returns those that a payload of the mesh
// names.
func named(s state.State, filesOf func(payload, sum string) []string) (names []string) {
	names = s.Summaries()
	for _, m := range s.Inbox {
		names = append(names, m.Payload)
		if m.Source == state.Mesh {
			names = append(names, filesOf(m.Payload, m.Sum)...)
		}
	}
	addFiles := func(refs []state.FileRef) {
		for _, f := range refs {
			names = append(names, f.File)
		}
	}
	for _, rows := range [][]state.Effect{s.Outbox, s.Undelivered, s.HookCalls} {
		for _, e := range rows {
			names = append(names, e.File)
			addFiles(e.Files)
		}
	}
	for _, u := range s.Unfiled {
		names = append(names, sentFile(u.ID))
		addFiles(u.Files)
	}
	for _, waits := range [][]state.Wait{s.Turn.Waiting, s.Turn.Given} {
		for _, w := range waits {
			names = append(names, w.Report)
			names = append(names, filesOf(w.Report, w.Sum)...)
		}
	}
	for _, x := range s.Expected {
		names = append(names, x.Report, x.Cause.Payload)
		if x.Cause.Source == state.Mesh {
			names = append(names, filesOf(x.Cause.Payload, x.Cause.Sum)...)
		}
		names = append(names, filesOf(x.Report, x.Sum)...)
	}
	return names
}

// turnFolder returns the folder of a turn.
func turnFolder(id string) string { return path.Join(store.TurnsDir, id) }
