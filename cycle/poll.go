package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// ErrBusy means that another process holds cycle.lock. That process looks once more before it
// leaves, so it sees everything that was durable before this poll began.
var ErrBusy = errors.New("another poll of this agent is already running")

// maxRounds is how many rounds a poll makes for new arrivals, before it leaves the rest to a
// detached poll.
const maxRounds = 3

// PollOptions choose the kind of poll.
type PollOptions struct {
	IfDue  bool // do nothing unless something is due
	NoTurn bool // leave the turns to a detached poll
	Stay   bool // may stay on while the crontab line is stuck; see pollWhileStuck
	ByHand bool // a person asked for it: waiting work is tried at once, regardless of its pause

	// LeaveLarge leaves large mail to a detached poll, which this one starts.
	LeaveLarge bool

	// LivesOn is set if the process outlives the poll, so the poll does not wait for the answer
	// to its heartbeat.
	LivesOn bool
}

// Poll makes one cycle: load, observe, commit, project, perform, look once more, and run the
// turns (docs/design.md, "One cycle"). It returns ErrBusy if another process makes one. A
// failed source is in the report and is not an error. Poll returns ErrInterrupted if ctx ended
// first, and a MovedError if the agent was moved. Any other error means that the cycle failed and consumed nothing.
func (a *Agent) Poll(ctx context.Context, o PollOptions) (Report, error) {
	return a.poller(new(mailSession)).poll(ctx, o)
}

// poller makes polls.
type poller struct {
	core
	cycle    *oneCycle
	crontab  *crontab
	flusher  *flusher
	detacher detacher
	runner   *runner
	large    *largeMail
	hooks    *hooks

	heartbeats heartbeats
	prompts    *clockPrompts
}

// poll is Poll.
func (p *poller) poll(ctx context.Context, o PollOptions) (Report, error) {
	if err := p.here(); err != nil {
		return Report{}, err
	}
	if err := p.hold(ctx); err != nil {
		return Report{}, err
	}
	if o.IfDue {
		skip, err := p.notDue()
		if skip == state.DueHooks {
			err = errors.Join(p.hooks.call(ctx), p.flusher.reschedule(ctx))
			skip = "only hooks were due"
		}
		if err != nil || skip != "" {
			return Report{Skipped: skip}, err
		}
	}
	prompts := &promptRound{clockPrompts: p.prompts}
	defer prompts.asking.Wait()
	prompts.look(ctx, !o.LeaveLarge) // prompts do not wait for servers
	ctx = cron.Patient(ctx)
	var r Report
	if o.LivesOn && p.heartbeats.waited == nil {
		p.heartbeats.waited = new(sync.WaitGroup) // the poll does not wait
	}
	beat := p.heartbeats.begin(ctx)
	defer beat.end()
	turns := func() error { return p.turns(ctx, o, &r) }
	busy, err := p.rounds(ctx, o, &r)
	if ctx.Err() != nil && !busy {
		p.logf("poll: %v; the next poll continues", ErrInterrupted)
		return r, ErrInterrupted
	}
	if err != nil {
		p.logf("poll: %v", err)
		beat.ask(r, err)
		return r, err
	}
	if busy {
		err = prompts.wait(ctx, func() error { return errors.Join(turns(), p.flusher.reschedule(ctx)) })
		return r, cmp.Or(err, ErrBusy)
	}
	p.askLater(beat, r)
	prompts.look(ctx, !o.LeaveLarge) // GO may have come, or the time of a prompt
	if o.LeaveLarge {
		err = errors.Join(prompts.wait(ctx, turns), p.afterCycle(ctx, o, &r, beat))
		return r, errors.Join(err, p.leaveLarge(o, r), prompts.leave(o, r), p.hooks.leave())
	}
	large, calls := p.large.begin(ctx), p.hooks.begin(ctx)
	err = p.afterCycle(ctx, o, &r, beat)
	err = errors.Join(err, prompts.wait(ctx, turns), large.wait(&r, turns), p.hooks.wait(ctx, calls), p.flusher.filer.file(ctx), p.flusher.reschedule(ctx))
	return r, errors.Join(err, p.conclude(&r))
}

// afterCycle runs the turns of a poll, logs it, and stays on while the crontab line is stuck.
// It sends the heartbeat when the turns have ended. If the caller starts a poll for a waiting
// turn, that poll sends the heartbeat.
func (p *poller) afterCycle(ctx context.Context, o PollOptions, r *Report, beat *beat) error {
	err := p.turns(ctx, o, r)
	err = errors.Join(err, p.conclude(r))
	if !o.NoTurn || !o.LeaveLarge || !r.TurnWaiting {
		beat.ask(*r, err)
	}
	if err != nil {
		p.logf("poll: %v", err)
		return err
	}
	p.logf("poll: %s", r.line())
	if o.Stay {
		return p.pollWhileStuck(ctx)
	}
	return nil
}

// askLater schedules the heartbeat during the turns of a poll, in case they take long.
func (p *poller) askLater(beat *beat, r Report) {
	if beat == nil {
		return
	}
	r.Failed = slices.Clone(r.Failed)
	if p.conclude(&r) == nil { // an error comes again at the end
		beat.askLater(r)
	}
}

// conclude adds the status of the agent to the report.
func (p *poller) conclude(r *Report) error {
	s, err := p.store.Read()
	if err != nil {
		return err
	}
	r.addCredentials(s)
	r.addUnsent(s, p.now())
	r.After, r.NextDue = s.Phase, s.NextDue
	r.TurnWaiting = s.CanRun(*p.policy, p.now())
	r.TwoMachines = view.TwoMachinesOf(s, p.now())
	return nil
}

// leaveLarge starts a detached poll if large mail is due. If a turn is waiting as well, the
// caller starts one.
func (p *poller) leaveLarge(o PollOptions, r Report) error {
	waits, err := p.large.waits()
	if err != nil || !waits || o.NoTurn && r.TurnWaiting {
		return err
	}
	return p.detacher.detach()
}

// turns runs the waiting messages. Damaged messages are fetched again in another round if
// possible, and have their turn then.
func (p *poller) turns(ctx context.Context, o PollOptions, r *Report) error {
	if o.NoTurn {
		return nil
	}
	if err := p.runner.run(ctx, r); err != nil || r.damaged == 0 {
		return err
	}
	o.ByHand = false // the person's request is served: newer failures wait
	if _, err := p.rounds(ctx, o, r); err != nil {
		return err
	}
	return p.runner.run(ctx, r)
}

// notDue returns the reason why --if-due skips the poll, state.DueHooks if only hooks are due,
// or "" if other work is due.
func (p *poller) notDue() (string, error) {
	s, err := p.store.Read()
	if err != nil {
		return "", err
	}
	list, _ := p.store.Nudges(s) // a cycle that is due reports the error
	due := s.Due(*p.policy, p.now())
	switch {
	case len(list.New) == 0 && due == state.DueHooks:
		return due, nil
	case len(list.New) > 0 || due != "":
		return "", nil
	}
	return "next poll is due at " + s.NextDue.Format(time.RFC3339), nil
}

// rounds makes steps 1 to 6 of a cycle until it sees no new work. It reports whether another
// process was running a cycle.
func (p *poller) rounds(ctx context.Context, o PollOptions, r *Report) (busy bool, err error) {
	again, err := inRounds(func(round int) (again bool, err error) {
		held, err := withLock(p.store, store.CycleLock, func() error { return p.cycle.round(ctx, o, r, round > 0) })
		if err != nil || !held {
			busy = err == nil && round == 0 // in a later round, the holder sees the same work
			return false, err
		}
		return p.flusher.hasNewWork(r)
	})
	if err != nil || !again {
		return busy, err
	}
	return false, p.detacher.detach()
}

// inRounds calls round until it reports no new work, maxRounds times at most. It reports
// whether the last round saw new work.
func inRounds(round func(n int) (again bool, err error)) (again bool, err error) {
	for n := range maxRounds {
		if again, err = round(n); err != nil || !again {
			return false, err
		}
	}
	return true, nil
}

// oneCycle makes steps 1 to 5 of a cycle.
type oneCycle struct {
	committer
	watchdog   *watchdog
	observer   *observer
	sweeper    *sweeper
	projector  *projector
	challenger *challenger
	performer  *performer
	pruner     *pruner
}

// round makes steps 1 to 5 and adds to the report. again is set in a further round of the same
// poll. The caller holds cycle.lock.
func (c *oneCycle) round(ctx context.Context, o PollOptions, r *Report, again bool) error {
	s, err := c.journal.readOwn(ctx)
	if err != nil {
		return err
	}
	if r.Before == "" {
		r.Before = s.Phase
	}
	if s, err = c.watchdog.watch(ctx, s); err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	obs := c.observer.observe(ctx, c.store, s, again)
	defer c.observer.done(obs)
	if ctx.Err() != nil { // the observation is incomplete
		return ErrInterrupted
	}
	if o.ByHand && !again {
		obs.events = append(obs.events, state.Unpaused{})
	}
	if s, err = c.journal.commit(ctx, obs.events...); err != nil {
		return err
	}
	r.looked = s.LastStep
	r.count(s)
	if s, err = c.sweeper.sweepLast(ctx, s); err != nil {
		return err
	}
	obs.markSeen(s.ToFlag)
	c.observer.done(obs)
	if s, err = c.projector.project(ctx, s, obs); err != nil {
		return err
	}
	r.fail(obs.failed)
	if s, err = c.challenger.challenge(ctx, s); err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	s, err = c.performer.perform(ctx, s, r)
	r.serial = s.Serial
	if err != nil {
		return err
	}
	if s, err = c.projector.reschedule(ctx, s); err != nil {
		return err
	}
	if s, err = c.pruner.prune(ctx, s); err != nil {
		c.logf("prune: %v", err) // old files that stay do no harm
		return nil
	}
	r.serial = s.Serial
	return nil
}

// Ring nudges this agent: it puts a file into nudges/, which is durable when Ring
// returns. The next poll sees it; a poll under way looks for it before it ends.
func (a *Agent) Ring(from, reason string) error {
	if err := a.Here(); err != nil {
		return err
	}
	return a.Store.Ring(from, reason)
}

// RingAtOnce is Ring for a caller that polls meanwhile, and for AwaitNudge. The nudge is
// durable when settle has returned nil. The caller must call settle once.
func (a *Agent) RingAtOnce(from, reason string) (rung view.RecordedNudge, settle func() error, err error) {
	if err := a.Here(); err != nil {
		return rung, func() error { return nil }, err
	}
	mark, settle, err := a.Store.RingAtOnce(from, reason)
	return view.RecordedNudge{Mark: mark, At: a.Now().UTC()}, settle, err
}

// ErrNoMesh means that another agent cannot be reached, because no mesh is configured.
var ErrNoMesh = errors.New("no mesh is configured: set url in [mesh] to reach other agents")

// RingOther nudges another agent through the mesh. It returns ErrNoMesh if no
// mesh is configured.
func (a *Agent) RingOther(ctx context.Context, handle, from, reason string) error {
	if a.Mesh == nil {
		return ErrNoMesh
	}
	if from == "" {
		from = a.Handle
	}
	return a.Mesh.Carrier.Nudge(ctx, handle, from, reason)
}

// overdueAfter is how late the poll of cron may be before a listener considers it missed.
const overdueAfter = 10 * time.Second

// PollReason returns the reason why a poll should be made now, or "": a nudge or a message file that
// a poll would take, a turn without a runner, or a reason of `poll --if-due`. The next poll itself is a reason only
// if cron is late with it. PollReason holds a lock only while it tests the lock, and does not
// use the network.
func (a *Agent) PollReason() (string, error) { return a.pollReasons().reason() }

// pollReasons finds the reason for a poll now.
type pollReasons struct {
	core
}

// reason is PollReason.
func (p pollReasons) reason() (string, error) {
	s, err := p.store.Read()
	if err != nil {
		return "", err
	}
	if s.Moved != nil {
		return "", nil // a poll would be refused
	}
	list, _ := p.store.Nudges(s) // a cycle reports the error
	if len(list.New) > 0 {
		return "nudge", nil
	}
	if lost, err := p.lostTurn(s); err != nil || lost {
		return "turn without a runner", err
	}
	return DueWithoutCron(s, *p.policy, p.now()), nil
}

// DueWithoutCron returns the reason for a poll at now that cron is not about to make, or "".
func DueWithoutCron(s state.State, policy state.Policy, now time.Time) string {
	if s.Turn.Lingering() {
		policy.Turns = false // a turn begins only after its runner has seen the agent's end
	}
	why := s.Due(policy, now)
	if why == "next poll" && now.Before(s.NextDue.Add(overdueAfter)) {
		return s.DueRow(policy, now) // cron is about to poll, but a due row does not wait for it
	}
	return why
}

// lostTurn reports whether the watchdog of a cycle would find a turn to reap.
func (p pollReasons) lostTurn(s state.State) (bool, error) {
	switch {
	case stoppedWhileSuspended(s.Turn):
		return true, nil
	case !s.Turn.NeedsRunner():
		return false, nil
	case s.Turn.Pulled && s.Turn.Stop == "":
		return p.now().Sub(s.Turn.Since) >= p.policy.TurnTimeout, nil
	}
	return withLock(p.store, store.TurnLock, func() error { return nil })
}
