package cycle

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
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
	again, err := f.hasNewWork(r)
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

// hasNewWork looks once more after cycle.lock was released. It reports whether a nudge has come, a
// row has fallen due since this process looked, or another process has committed work for a
// cycle.
func (f *flusher) hasNewWork(r *Report) (bool, error) {
	s, err := f.store.Read()
	if err != nil {
		return false, err
	}
	list, _ := f.store.Nudges(s) // the round has reported its error
	if len(list.New) > 0 {
		return true, nil
	}
	// Effects that a cycle cannot send now (a server is down) are due as well, and are left to
	// the next cycle. Only effects that another process committed are new.
	return f.crontab.misplaced(s) || s.CameDue(*f.policy, r.looked, f.now()) || s.Serial != r.serial && len(s.DueEffects(f.now())) > 0, nil
}

// ackTimer sends an ack that falls due while this process runs turns (docs/design.md,
// "Phases"). The next poll may come only after the answer.
type ackTimer struct {
	committer
	flusher *flusher

	checkEvery time.Duration
}

// begin sends due acks in the background until stop is called. stop returns when the last send
// has ended.
func (t *ackTimer) begin(ctx context.Context) (stop func()) {
	if t.policy.AckAfter <= 0 {
		return func() {}
	}
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(t.secrets.Guarded(func() { t.watch(ctx, over) }))
	return func() {
		close(over)
		watching.Wait()
	}
}

// watch reads the state every checkEvery, and sends an ack that is due.
func (t *ackTimer) watch(ctx context.Context, over <-chan struct{}) {
	tick := time.NewTicker(t.checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s, err := t.store.Read()
		if err != nil || !s.AckDue(t.now()) {
			continue // the next poll reports the error
		}
		if err := t.send(ctx); err != nil {
			t.logf("ack: %v", err)
		}
	}
}

// send commits the ack that is due, and sends it if no other process holds cycle.lock.
func (t *ackTimer) send(ctx context.Context) error {
	s, err := t.journal.commit(ctx)
	if err != nil {
		return err
	}
	return t.flusher.sendNow(ctx, s)
}

// Detach starts a poll of this agent in a session of its own. The poll outlives
// this process and holds none of its descriptors.
func (a *Agent) Detach() error { return a.detacher().detach() }

// PollDetached starts a poll as Detach does, with IfDue, NoTurn and linger, for a caller that must
// end at once. With IfDue it starts no process unless something is due. The report says which.
// Under a timer a poll of an engaged agent lingers as [Schedule].Linger says. It returns a MovedError if
// the agent was moved.
func (a *Agent) PollDetached(o PollOptions, linger time.Duration) (Report, error) {
	if err := a.Here(); err != nil {
		return Report{}, err
	}
	args := []string{"poll", "--quiet"}
	if o.IfDue {
		skip, err := a.poller(nil).notDue()
		if err != nil || skip != "" && skip != state.DueHooks {
			return Report{Skipped: skip}, err
		}
		args = append(args, "--if-due")
	}
	if o.NoTurn {
		args = append(args, "--no-turn")
	}
	s, err := a.Store.Read()
	if err != nil {
		return Report{}, err
	}
	switch {
	case linger > 0:
		args = append(args, "--linger", linger.String())
	case a.Schedule.HasTimer():
		args = append(args, a.crontab().lingerArgs(s)...)
	}
	return Report{Skipped: "the poll continues in a process of its own"}, a.detacher().start(args...)
}

// detacher starts detached polls.
type detacher struct {
	self    []string // argv of this program with the agent's configuration
	secrets *secret.Known
}

// detach is Detach.
func (d detacher) detach() error { return d.start("poll", "--quiet") }

// HooksCommand is the hidden subcommand that calls the hooks.
const HooksCommand = "__hooks"

// detachHooks starts a process that calls the hooks.
func (d detacher) detachHooks() error { return d.start(HooksCommand) }

// start starts this program with a subcommand, in a session of its own.
func (d detacher) start(subcommand ...string) error {
	if len(d.self) == 0 {
		return errors.New("start a detached poll: the path of this program is unknown")
	}
	argv := append(append([]string{}, d.self...), subcommand...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	turn.WithholdLock() // otherwise a poll that a turn started would pass for its agent
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a detached poll: %w", err)
	}
	go d.secrets.Guarded(func() { _ = cmd.Wait() })() // a listener lives long, and must leave no zombies
	return nil
}
