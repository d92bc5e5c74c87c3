package cycle

import (
	"context"
	"fmt"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// flusher sends, outside of a poll, the effects that a commit has queued.
type flusher struct {
	core
	crontab   *crontab
	projector *projector
	performer *performer
	detacher  detacher
	filer     *filer
}

// sendNow makes steps 4 and 5 of a cycle for the state s. If another process holds cycle.lock,
// that process sends. Otherwise other processes find the lock taken and leave. sendNow then
// starts a detached poll for their work, because its own caller may be busy with a turn for
// minutes.
func (f *flusher) sendNow(ctx context.Context, s state.State) error {
	return f.sendDue(ctx, s, new(Report))
}

// sendDue is sendNow, and adds the sent and the failed effects to the report.
func (f *flusher) sendDue(ctx context.Context, s state.State, r *Report) error {
	if len(s.DueEffects(f.now())) == 0 && len(s.ToAck) == 0 && !f.crontab.misplaced(s) {
		return nil
	}
	held, err := withLock(f.store, store.CycleLock, func() (err error) {
		s, err = f.flush(ctx, r)
		return err
	})
	if err != nil || !held {
		return err
	}
	r.serial = s.Serial
	again, err := f.unseen(r)
	if err != nil || !again {
		return err
	}
	return f.detacher.detach()
}

// flush makes steps 4 and 5 alone. The caller holds cycle.lock.
func (f *flusher) flush(ctx context.Context, r *Report) (s state.State, err error) {
	if s, err = f.store.Read(); err != nil {
		return s, err
	}
	r.looked = f.now()
	if s, err = f.projector.project(ctx, s, nil); err != nil {
		return s, fmt.Errorf("project: %w", err)
	}
	if s, err = f.performer.perform(ctx, s, r); err != nil {
		return s, err
	}
	return f.projector.reschedule(ctx, s)
}

// reschedule installs the crontab lines again if the state asks for others by now, such as for
// the next call of a hook that failed. It leaves this to another process that holds cycle.lock.
func (f *flusher) reschedule(ctx context.Context) error {
	s, err := f.store.Read()
	if err != nil || !f.crontab.misplaced(s) {
		return err
	}
	_, err = withLock(f.store, store.CycleLock, func() error {
		if s, err = f.store.Read(); err == nil {
			_, err = f.projector.reschedule(ctx, s)
		}
		return err
	})
	return err
}

// unseen looks once more after cycle.lock was released. It reports whether a nudge has come, a
// row has fallen due since this process looked, or another process has committed work for a
// cycle.
func (f *flusher) unseen(r *Report) (bool, error) {
	s, err := f.store.Read()
	if err != nil {
		return false, err
	}
	rung, _ := f.store.Nudges() // the round has reported its error
	for _, n := range rung {
		if !s.TookNudge(n.Key) {
			return true, nil
		}
	}
	// Effects that a cycle cannot send now (a server is down) are due as well, and are left to
	// the next cycle. Only effects that another process committed are new.
	return f.crontab.misplaced(s) || s.CameDue(*f.policy, r.looked, f.now()) || s.Serial != r.serial && len(s.DueEffects(f.now())) > 0, nil
}
