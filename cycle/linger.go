package cycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state/store"
)

// lingerGap is how long before the next firing of cron a lingering poll goes, so
// that the two do not meet.
const lingerGap = 2 * time.Second

// PollLingering polls, and stays for d, but not into the next firing of cron: it
// holds the mail session of the poll in IDLE and the mesh's long poll, and makes
// an ordinary cycle at once of what comes (DESIGN 11). So an engaged agent
// reacts within a second, on one login a minute. One process lingers at a time;
// a turn, in the poll or later, ends it.
func (a *Agent) PollLingering(ctx context.Context, o PollOptions, d time.Duration) (Report, error) {
	began := a.Now()
	b := *a
	b.kept = &keptWatch{}
	defer b.kept.close()
	r, err := b.Poll(ctx, o)
	if err != nil || r.Skipped != "" || r.Turns > 0 || r.TurnWaiting {
		return r, err
	}
	until := began.Add(d)
	if fires := r.NextDue.Add(-lingerGap); fires.Before(until) {
		until = fires
	}
	return r, a.linger(ctx, b.kept, until.Sub(a.Now()))
}

// keptWatch is the mail session of a poll that will linger.
type keptWatch struct{ watch *mail.Watch }

// keep takes a newer session.
func (k *keptWatch) keep(w *mail.Watch) {
	k.close()
	k.watch = w
}

func (k *keptWatch) close() {
	if k.watch != nil {
		k.watch.Close()
		k.watch = nil
	}
}

// openBox opens the mailbox for one observation, so that a lingering poll can go
// on with it.
func (a *Agent) openBox(ctx context.Context, box mail.Mailbox) (*mail.Session, error) {
	if a.kept == nil {
		return box.Open(ctx)
	}
	w, err := box.Watch(ctx)
	if err != nil {
		return nil, err
	}
	a.kept.keep(w)
	return w.Session, nil
}

// closeBox ends an observation.
func (a *Agent) closeBox(obs *observation) {
	if a.kept == nil {
		obs.close()
	}
}

// linger waits for d, and polls for what comes.
func (a *Agent) linger(ctx context.Context, kept *keptWatch, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	turn := false
	_, err := a.withLock(store.LingerLock, func() (err error) {
		turn, err = a.lingerLocked(ctx, kept, d)
		return err
	})
	if err == nil && turn {
		_, err = a.Turns(ctx)
	}
	return err
}

// lingerLocked polls for what comes within d, until a turn can run. A poll begun
// in time is finished.
func (a *Agent) lingerLocked(ctx context.Context, kept *keptWatch, d time.Duration) (turn bool, err error) {
	woken := make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default: // one poll sees it all
		}
	}
	waiting, cancel := context.WithTimeout(ctx, d)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if a.Mesh != nil {
		watching.Go(a.Secrets.Guarded(func() { a.WatchMesh(waiting, nil, nil, wake) }))
	}
	if w := kept.watch; w != nil {
		watching.Go(a.Secrets.Guarded(func() {
			for w.Wait(waiting) == nil {
				wake()
			}
		}))
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-waiting.Done():
			return false, nil
		case <-look.C:
			if why, err := a.PollReason(); err != nil || why == "" {
				continue // the next poll will tell what is wrong
			}
		case <-woken:
		}
		r, err := a.Poll(ctx, PollOptions{NoTurn: true})
		switch {
		case errors.Is(err, ErrBusy):
			pause(waiting, 200*time.Millisecond, nil) // it may have looked before ours came
			wake()
		case err != nil && ctx.Err() == nil:
			return false, err
		case r.TurnWaiting:
			return true, nil
		}
	}
}
