package cycle

import (
	"context"
	"path"
	"slices"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// pruneEvery is how often the folders are searched: a search costs more, the more they hold.
// pruneAtOnce is how many entries one cycle removes (docs/design.md, "Costs").
const (
	pruneEvery  = 24 * time.Hour
	pruneAtOnce = 100
)

// pruner removes old files.
type pruner struct {
	core
	keep    time.Duration // 0: keep everything
	journal *journal
}

// due reports whether a search of the folders is due.
func (p *pruner) due(s state.State) bool { return p.keep > 0 && p.now().Sub(s.Pruned) >= pruneEvery }

// prune removes turns, messages, quarantine, sent mails and leftover rendered effects that are
// older than keep, unless the state still needs them.
func (p *pruner) prune(ctx context.Context, s state.State) (state.State, error) {
	now := p.now()
	if !p.due(s) {
		return s, nil
	}
	needed := map[string]bool{path.Join(store.TurnsDir, s.Turn.TurnID): true}
	for _, file := range s.Summaries() {
		needed[file] = true
	}
	for _, m := range s.Inbox {
		needed[m.Payload] = true
		for _, f := range (files.Incoming{Store: p.store}).FilesOf(m) {
			needed[f.Name] = true
		}
		needed[path.Join(store.TurnsDir, m.TurnID)] = true
		needed[path.Join(store.TurnsDir, m.MadeBy)] = true
	}
	for _, e := range slices.Concat(s.Outbox, s.Undelivered, s.HookCalls) {
		needed[e.File] = true
		for _, f := range e.Files {
			needed[f.File] = true
		}
	}
	for _, u := range s.Unfiled {
		needed[sentFile(u.ID)] = true
		for _, f := range u.Files {
			needed[f.File] = true
		}
	}
	for _, w := range slices.Concat(s.Turn.Waiting, s.Turn.Given) {
		needed[w.Report] = true
		for _, f := range (files.Incoming{Store: p.store}).FilesIn(w.Report, w.Sum) {
			needed[f.Name] = true
		}
	}
	for _, x := range s.Expected {
		needed[x.Report], needed[x.Cause.Payload] = true, true
		list := files.Incoming{Store: p.store}
		for _, f := range slices.Concat(list.FilesOf(x.Cause), list.FilesIn(x.Report, x.Sum)) {
			needed[f.Name] = true
		}
	}
	left := pruneAtOnce
	for _, folder := range []string{store.TurnsDir, store.MessagesDir, store.OutboxDir, store.SentDir, store.QuarantineDir} {
		spared := func(name string) bool { return needed[path.Join(folder, name)] }
		n, err := p.store.Prune(folder, now.Add(-p.keep), spared, left)
		if err != nil {
			return s, err
		}
		if left -= n; left == 0 {
			return s, nil // the next cycle goes on
		}
	}
	held, err := quarantine.Folder{Store: p.store}.Count()
	if err != nil {
		return s, err
	}
	return p.journal.commit(ctx, state.Pruned{Before: now.Add(-p.keep)}, state.QuarantineHolds{Items: held})
}
