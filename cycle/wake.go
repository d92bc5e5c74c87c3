package cycle

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// What a process that stays on, a listener or a lingering poll, waits for.

// overdueAfter is how late the poll of cron may be before a listener takes it
// to be missing.
const overdueAfter = 10 * time.Second

// Wants says why a poll should be made now: a nudge that no commit has taken, a
// turn without a runner, or whatever --if-due knows, the next poll only when
// cron is late with it. "" means that there is nothing. It takes no lock for
// longer than a look, and does not use the network.
func (a *Agent) Wants() (string, error) {
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	rung, err := a.Store.Rung()
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(rung, func(n state.NudgeFile) bool { return !s.TookNudge(n.Key) }) {
		return "nudge", nil
	}
	if lost, err := a.lostTurn(s); err != nil || lost {
		return "turn without a runner", err
	}
	now := a.Now()
	why := s.Due(a.Policy, now)
	if why == "next poll" && now.Before(s.NextDue.Add(overdueAfter)) {
		return "", nil // cron is about to come
	}
	return why, nil
}

// lostTurn says whether the watchdog of a cycle would find something to reap.
func (a *Agent) lostTurn(s state.State) (bool, error) {
	switch {
	case laidDown(s.Turn):
		return true, nil
	case !owned(s.Turn):
		return false, nil
	case s.Turn.Pulled && s.Turn.Stop == "":
		return a.Now().Sub(s.Turn.Since) >= a.Policy.TurnTimeout, nil
	}
	return a.under(state.TurnLock, func() error { return nil })
}

// meshPatience is how long one long poll waits (DESIGN 8).
const meshPatience = 50 * time.Second

// WatchMesh holds the mesh's long poll until ctx ends, and calls wake when a
// poll would find something new: a message or nudge that was not there before,
// or HALT or GO. reached, where it is not nil, is called when the mesh answers
// for the first time, or again after it did not. What comes over kick cuts a
// pause short. The agent must have a mesh.
func (a *Agent) WatchMesh(ctx context.Context, kick <-chan struct{}, reached, wake func()) {
	w := meshWatch{agent: a, wake: wake, pause: Backoff{Least: 250 * time.Millisecond, Most: 30 * time.Second}}
	away := true
	for ctx.Err() == nil {
		asked, patience := time.Now(), meshPatience
		if away {
			patience = 0 // whether it is there should be known at once
		}
		box, err := a.Mesh.Client.Mailbox(ctx, patience)
		back := err == nil && away
		if back && reached != nil {
			reached()
		}
		away = err != nil
		held := back || time.Since(asked) > time.Second
		if !away && (w.look(box) || len(box.Messages) == 0 && held) {
			w.pause.Reset()
		}
		if !away && len(box.Messages) == 0 && held {
			continue // it was waited for, or was not to wait
		}
		// The mesh is away, knows no long poll, or shows what a poll is about to
		// take.
		pause(ctx, w.pause.Next(), kick)
	}
}

// meshWatch knows what a mailbox held when it was last looked at.
type meshWatch struct {
	agent *Agent
	wake  func()
	known map[string]bool
	pause Backoff
}

// haltChanged stands among the keys for a HALT that the state does not know yet,
// or still has.
const haltChanged = "halt"

// look wakes if there is something in box that was not there before.
func (w *meshWatch) look(box mesh.Mailbox) (news bool) {
	known := map[string]bool{}
	for _, m := range box.Messages {
		known[m.Key()] = true
		news = news || !w.known[m.Key()]
	}
	if s, err := w.agent.Store.Read(); err == nil && s.HaltedMesh != box.Halted {
		known[haltChanged] = true
		news = news || !w.known[haltChanged]
	}
	w.known = known
	if news {
		w.wake()
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

// Backoff gives pauses that double from Least to Most, each shortened by up to
// a half at random, so that a thousand agents do not come back at once.
type Backoff struct {
	Least, Most time.Duration
	last        time.Duration
}

// Next is the next pause.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.Least), b.Most)
	return b.last/2 + rand.N(b.last/2+1)
}

// Reset begins anew with Least.
func (b *Backoff) Reset() { b.last = 0 }
