package cycle

import (
	"context"
	"fmt"
	"slices"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/state"
)

// Quarantine returns the items in quarantine, oldest first.
func (a *Agent) Quarantine() ([]quarantine.Item, error) {
	s, err := a.Store.Read()
	if err != nil {
		return nil, err
	}
	items, err := a.quarantine().Items()
	// A crash may leave the folder of a released item.
	return slices.DeleteFunc(items, func(i quarantine.Item) bool { return s.Accepts(i.Key) }), err
}

// Quarantined returns the item with this key. The error wraps quarantine.ErrNotQuarantined if
// the item is missing.
func (a *Agent) Quarantined(key string) (quarantine.Item, error) {
	s, err := a.Store.Read()
	if err != nil {
		return quarantine.Item{}, err
	}
	if s.Accepts(key) {
		return quarantine.Item{}, fmt.Errorf("%s is %w", key, quarantine.ErrNotQuarantined)
	}
	return a.quarantine().Find(key)
}

// Release accepts an item in spite of its gate, once: as a message that came now, under its own
// key. The message is durable when Release returns. If the key was accepted before, by this
// item or by a real message, already is true and the item is not accepted again.
func (a *Agent) Release(ctx context.Context, key string) (already bool, err error) {
	item, raw, err := a.quarantine().Open(key)
	if err != nil {
		return false, err
	}
	s, err := a.Store.Read()
	if err != nil {
		return false, err
	}
	switch {
	case s.Accepts(key):
		already = true
	case s.WasReleased(item.Same(raw)):
		already = true
		s, err = a.journal().commit(ctx, state.Discarded{Key: key, Reason: state.CopyOfReleased})
	default:
		var event state.Event
		var whole []byte
		if whole, err = (files.Quarantined{Store: a.Store}).Release(item, raw); err == nil {
			event, err = a.accepter().release(a.Store, s, item, whole)
		}
		if err == nil {
			s, err = a.journal().commit(ctx, state.Released{Key: key, Reason: "by hand", Same: item.Same(raw), Event: event})
		}
	}
	if err != nil {
		return false, err
	}
	_, err = a.sweeper().sweep(ctx, s, key)
	return already, err
}

// Expel removes an item from quarantine for good. If it was forged, the real
// message may still come.
func (a *Agent) Expel(ctx context.Context, key, reason string) error {
	if _, err := a.quarantine().Find(key); err != nil {
		return err
	}
	s, err := a.journal().commit(ctx, state.Discarded{Key: key, Reason: reason})
	if err != nil {
		return err
	}
	_, err = a.sweeper().sweep(ctx, s, key)
	return err
}

// sweeper removes the folders of items that have left the quarantine.
type sweeper struct {
	folder  quarantine.Folder
	journal *journal
}

// sweep removes the folders of these items, which have left the quarantine in s, and corrects
// the count.
func (w *sweeper) sweep(ctx context.Context, s state.State, keys ...string) (state.State, error) {
	for _, key := range keys {
		if err := w.folder.Remove(key); err != nil {
			return s, fmt.Errorf("clear quarantine: %w", err)
		}
	}
	n, err := w.folder.Count()
	if err != nil || n == s.Quarantined {
		return s, err
	}
	return w.journal.commit(ctx, state.QuarantineHolds{Items: n})
}

// sweepLast sweeps the items that left with the last commit, whose state is s.
func (w *sweeper) sweepLast(ctx context.Context, s state.State) (state.State, error) {
	var keys []string
	for _, l := range s.Lines {
		if l.Kind == state.LineQuarantine {
			keys = append(keys, l.Key)
		}
	}
	if len(keys) == 0 {
		return s, nil
	}
	return w.sweep(ctx, s, keys...)
}
