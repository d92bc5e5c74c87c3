package cycle

import (
	"context"
	"time"

	"agentstateloop/mesh"
)

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
