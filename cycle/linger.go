package cycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentstateloop/mail"
	"agentstateloop/mesh"
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

func (a *Agent) lingerer(mailbox *mail.Watch) *lingerer {
	return &lingerer{
		core: a.core(), mesh: a.Mesh, mailbox: mailbox, poller: a.poller(new(mailSession)), reasons: a.pollReasons(), runner: a.runner(),
		checkEvery: checkInterval(a),
	}
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
			if l.store.BeingRemoved() {
				return false, nil
			}
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

// meshPatience is the timeout of one long poll (docs/protocol.md, "The mesh").
const meshPatience = 50 * time.Second

// WatchMesh holds the mesh's long poll until ctx ends. It calls notify when a
// poll would find something new: a message or a nudge, or HALT or GO. If reached
// is not nil, WatchMesh calls it when the mesh first answers, and when it answers
// again after a failure. A value from kick ends a pause early. The agent must
// have a mesh.
func (a *Agent) WatchMesh(ctx context.Context, kick <-chan struct{}, reached, notify func()) {
	watchMesh(ctx, a.Mesh, a.Store, kick, reached, notify)
}

// meshPauses returns the pauses between tries to reach a mesh that is away.
func meshPauses() Backoff { return Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second} }

// haltPauses returns the pauses between the polls for a HALT or GO that the state does not show
// yet: a mesh may announce it before it can be read there.
func haltPauses() Backoff { return Backoff{Min: time.Second, Max: meshPatience} }

// watchMesh is WatchMesh.
func watchMesh(ctx context.Context, m *Mesh, st *store.Store, kick <-chan struct{}, reached, notify func()) {
	w := meshWatch{mesh: m, store: st, notify: notify, repeats: haltPauses()}
	pauses := meshPauses()
	away, burst := true, 0
	for ctx.Err() == nil {
		asked, patience := time.Now(), meshPatience
		switch {
		case away:
			patience = 0 // learn at once whether it is back
		case !w.repeat.IsZero():
			patience = time.Until(w.repeat)
		}
		box, err := m.Carrier.Watch(ctx, patience)
		back := err == nil && away
		if back && reached != nil {
			reached()
		}
		away = err != nil
		held := back || time.Since(asked) > time.Second
		if !away && held {
			burst = 0
			pauses.Reset()
		}
		news := !away && w.compare(box)
		if news {
			burst++
			pauses.Reset()
		}
		switch {
		case !away && box.Empty() && held:
			continue // the mesh waited, or was not asked to
		case news && inBurst(burst):
			continue // what comes now is another wake; a mesh that shows this again is asked once more
		}
		// The mesh is away, has no long poll, or shows items that a poll is about to take.
		pause(ctx, pauses.Next(), kick)
	}
}

// maxBurst is how many wakes may follow each other without a pause, until the mesh is quiet for
// a second. Further wakes pause for a quarter of a second or more.
const maxBurst = 10

// inBurst reports whether the nth wake since the mesh was quiet is followed without a pause.
func inBurst(n int) bool { return n <= maxBurst }

// rejectsEvery is the time between two polls that only take items which the gate rejects.
// Without it a stranger could make the agent poll at each nudge.
const rejectsEvery = time.Minute

// meshWatch remembers the mailbox of the last read.
type meshWatch struct {
	mesh     *Mesh
	store    *store.Store
	notify   func()
	known    map[string]bool
	halted   bool      // as the mesh last said
	repeat   time.Time // when to poll again for HALT or GO; zero: the state shows it
	repeats  Backoff
	rejected time.Time // when notify was last called for items that the gate rejects
}

// compare calls notify if box holds new items, and reports whether it did. Items that the gate
// rejects are news once in rejectsEvery.
func (w *meshWatch) compare(box mesh.Mailbox) (news bool) {
	known, rejects := map[string]bool{}, len(box.Undecoded) > 0
	for _, m := range box.Messages {
		known[m.Key()] = true
		gate, _ := w.mesh.gate(m)
		rejects = rejects || gate != ""
		news = news || gate == "" && !w.known[m.Key()]
	}
	if now := time.Now(); rejects && now.Sub(w.rejected) >= rejectsEvery {
		w.rejected, news = now, true
	}
	if box.HaltUnproven {
		w.repeat = time.Time{} // a poll cannot change that
	} else if w.haltChanged(box.Halted) {
		news = true
	}
	w.known = known
	if news {
		w.notify()
	}
	return news
}

// haltChanged records whether the mesh is halted, and reports whether a poll must look at that:
// because it has changed, or repeatedly while the state does not show it.
func (w *meshWatch) haltChanged(on bool) (news bool) {
	// A running poll may be about to commit an older value.
	news = on != w.halted
	w.halted = on
	s, err := w.store.Read()
	if err != nil || s.HaltedMesh == on {
		w.repeat = time.Time{}
		w.repeats.Reset()
		return news
	}
	if now := time.Now(); news || !now.Before(w.repeat) {
		w.repeat, news = now.Add(w.repeats.Next()), true
	}
	return news
}

// pause waits for d, a kick, or the end of ctx.
func pause(ctx context.Context, d time.Duration, kick <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-kick:
	case <-ctx.Done():
	}
}
