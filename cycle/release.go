package cycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// Release accepts an item in spite of its gate, once: as a message that came now, under its own
// key. The message is durable when Release returns. If the key was accepted before, by this
// item or by a real message, already is true and the item is not accepted again. origin is the place
// of the order, for the history, such as state.ByHand.
func (a *Agent) Release(ctx context.Context, key, origin string) (already bool, err error) {
	if err := a.core().acts(); err != nil {
		return false, err
	}
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
		if whole, err = (files.QuarantinedFiles{Store: a.Store}).Release(item, raw); err == nil {
			event, err = a.accepter().release(a.Store, s, item, whole)
		}
		if err == nil {
			s, err = a.journal().commit(ctx, state.Released{Key: key, Reason: origin, Same: item.Same(raw), Event: event})
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

// The files of a message that a gate rejected are next to it in quarantine, within the limits
// of quarantine. So it can be released with them (docs/protocol.md, "Files between agents").

// holdsFiles reports whether a message is rejected, could be released, and has files.
func (ad *admission) holdsFiles(m mesh.Message) bool {
	gate, _ := ad.mesh.gate(m)
	return gate != "" && len(m.Files) > 0 && (causesTurn(m) || m.Kind == mesh.KindReport) && m.From != ad.handle && m.Malformed() == ""
}

// rejectWithFiles keeps a message that a gate rejects in quarantine with its files. It requests
// each file once, because a rejected message must not stay on the mesh. It returns nil if this
// poll has no time for the requests.
func (ad *admission) rejectWithFiles(ctx context.Context, d files.Downloader, m mesh.Message) (state.Event, error) {
	e := ad.rejectMesh(m, "", "", false)
	e.Gate, e.Reason = ad.mesh.gate(m)
	v := verdictOnMesh(e)
	for _, f := range m.Files {
		v.Files += f.Size
	}
	room, err := ad.quarantine.Room(v, "", v.Files+mesh.MaxMessage)
	if err != nil {
		return nil, err
	}
	m.Files = slices.Clone(m.Files)
	v.Files = 0
	for i, f := range m.Files {
		m.Files[i].Missing = "the quarantine had no room for it"
		if !room {
			continue
		}
		m.Files[i].Missing = ""
		switch err := d.FetchOne(ctx, files.QuarantinedName(e.Key, i), m.From, f); {
		case err == nil:
			v.Files += f.Size
		case ctx.Err() != nil || errors.Is(err, files.ErrNoTime):
			return nil, nil
		default:
			m.Files[i].Missing = "it could not be downloaded when its message was put into quarantine: " + plain.Brief(err.Error())
		}
	}
	return ad.quarantineMesh(e, v, m)
}
