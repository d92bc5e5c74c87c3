package cycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state/store"
)

// lingerGap is how long before the next firing of cron a lingering poll leaves, so that the two
// do not meet.
const lingerGap = 2 * time.Second

// PollLingering polls, stays for d, and polls again as soon as work comes. It leaves before the
// next firing of cron. Meanwhile it holds the poll's mail session in IDLE, and a long poll of
// the mesh. So an engaged agent reacts within a second, on one login a minute. One process
// lingers at a time; a turn, in the poll or later, ends the lingering.
func (a *Agent) PollLingering(ctx context.Context, o PollOptions, d time.Duration) (Report, error) {
	began := a.Now()
	session := &mailSession{lingers: true}
	defer session.close()
	p := a.poller(session)
	var beats sync.WaitGroup
	defer beats.Wait()
	p.heartbeats.waited = &beats
	r, err := p.poll(ctx, o)
	if err != nil || r.Skipped != "" || r.Turns > 0 || r.TurnWaiting {
		return r, err
	}
	until := lingersUntil(began.Add(d), r.NextDue)
	l := a.lingerer(session.watch)
	l.poller.heartbeats.waited = &beats
	err = l.linger(ctx, until.Sub(a.Now()), &r)
	return r, err
}

// lingersUntil returns when a lingering poll leaves: at until, or shortly before cron fires.
func lingersUntil(until, cronFires time.Time) time.Time {
	if gone := cronFires.Add(-lingerGap); gone.Before(until) {
		return gone
	}
	return until
}

// lingerer stays on after a poll.
type lingerer struct {
	core
	mesh    *Mesh
	mailbox *mail.Watch // of the poll that came before; nil: the mailbox could not be opened
	poller  *poller
	reasons pollReasons
	runner  *runner

	checkEvery time.Duration
}

// linger waits for d, and polls when work comes. It adds the failures to the report. It does
// nothing if another process lingers.
func (l *lingerer) linger(ctx context.Context, d time.Duration, report *Report) error {
	if d <= 0 {
		return nil
	}
	turn := false
	_, err := withLock(l.store, store.LingerLock, func() (err error) {
		turn, err = l.lingerLocked(ctx, d, report)
		return err
	})
	if err == nil && turn {
		var ran Report
		beat := l.poller.heartbeats.begin(ctx)
		defer beat.end()
		l.poller.askLater(beat, ran)
		err = l.runner.run(ctx, &ran)
		beat.ask(ran, errors.Join(err, l.poller.conclude(&ran)))
		report.fail(ran.Failed)
	}
	return err
}

// lingerLocked polls when work comes within d, until a turn can run. It finishes a poll that
// began in time.
func (l *lingerer) lingerLocked(ctx context.Context, d time.Duration, report *Report) (turn bool, err error) {
	arrived := make(chan struct{}, 1)
	notify := func() {
		select {
		case arrived <- struct{}{}:
		default: // one poll sees it all
		}
	}
	waiting, cancel := context.WithTimeout(ctx, d)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if l.mesh != nil {
		watching.Go(l.secrets.Guarded(func() { watchMesh(waiting, l.mesh, l.store, nil, nil, notify) }))
	}
	if w := l.mailbox; w != nil {
		watching.Go(l.secrets.Guarded(func() {
			for w.Wait(waiting) == nil {
				notify()
			}
		}))
	}
	tick := time.NewTicker(2 * l.checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-waiting.Done():
			return false, nil
		case <-tick.C:
			if why, err := l.reasons.reason(); err != nil || why == "" {
				continue // the next poll will report the error
			}
		case <-arrived:
		}
		r, err := l.poller.poll(ctx, PollOptions{NoTurn: true, LeaveLarge: true})
		report.fail(r.Failed)
		switch {
		case errors.Is(err, ErrBusy):
			pause(waiting, 200*time.Millisecond, nil) // the other poll may have looked too early
			notify()
		case err != nil && ctx.Err() == nil:
			return false, err
		case r.TurnWaiting:
			return true, nil
		}
	}
}
