package cycle

import (
	"context"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state/store"
)

// meshPatience is the timeout of one long poll (docs/design.md, "The mesh").
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
		case news && atOnce(burst):
			continue // what comes now is another wake; a mesh that shows this again is asked once more
		}
		// The mesh is away, has no long poll, or shows items that a poll is about to take.
		pause(ctx, pauses.Next(), kick)
	}
}

// maxBurst is how many wakes may follow each other without a pause, until the mesh is quiet for
// a second. Further wakes pause for a quarter of a second or more.
const maxBurst = 10

// atOnce reports whether the nth wake since the mesh was quiet is followed without a pause.
func atOnce(n int) bool { return n <= maxBurst }

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
	} else if w.switched(box.Halted) {
		news = true
	}
	w.known = known
	if news {
		w.notify()
	}
	return news
}

// switched records whether the mesh is halted, and reports whether a poll must look at that:
// because it has changed, or repeatedly while the state does not show it.
func (w *meshWatch) switched(on bool) (news bool) {
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
