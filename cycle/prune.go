package cycle

import (
	"context"
	"path"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// pruneEvery is how often the folders are looked through, since that costs more
// the more they hold; pruneAtOnce how much one cycle removes (DESIGN 4).
const (
	pruneEvery  = 24 * time.Hour
	pruneAtOnce = 100
)

// prune removes what is older than is kept and belongs to nothing that still
// waits: turns, messages, quarantine, and rendered effects that were left over.
func (a *Agent) prune(ctx context.Context, s state.State) (state.State, error) {
	now := a.Now()
	if a.Keep <= 0 || now.Sub(s.Pruned) < pruneEvery {
		return s, nil
	}
	needed := map[string]bool{path.Join(store.TurnsDir, s.Turn.TurnID): true, s.Compacted.File: true}
	for _, m := range s.Inbox {
		needed[m.Payload] = true
		needed[path.Join(store.TurnsDir, m.TurnID)] = true
	}
	for _, e := range s.Outbox {
		needed[e.File] = true
	}
	for _, w := range s.Turn.Waiting {
		needed[w.Report] = true
	}
	left := pruneAtOnce
	for _, folder := range []string{store.TurnsDir, store.MessagesDir, store.OutboxDir, store.QuarantineDir} {
		spared := func(name string) bool { return needed[path.Join(folder, name)] }
		n, err := a.Store.Prune(folder, now.Add(-a.Keep), spared, left)
		if err != nil {
			return s, err
		}
		if left -= n; left == 0 {
			return s, nil // the next cycle goes on
		}
	}
	held, err := countQuarantine(a.Store)
	if err != nil {
		return s, err
	}
	return a.commit(ctx, state.Pruned{}, state.QuarantineHolds{Items: held})
}
