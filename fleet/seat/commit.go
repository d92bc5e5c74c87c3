package seat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Base implements store.Arbiter: it makes the cache hold the newest head of this host. It uses the
// network only if a process of this host died in a commit, or the cache was lost.
func (s *Seat) Base(ctx context.Context, c *store.Cache) error {
	r, err := s.read()
	if err != nil {
		return err
	}
	if err := s.refusal(r, c.State); err != nil {
		return err
	}
	if !r.Unsettled && c.Recovery.Reason == "" && c.State.Serial == r.Head.Serial {
		return nil
	}
	return s.refresh(ctx, c, &r)
}

// refusal returns the reason why this host may not change the state, as far as it is known here.
func (s *Seat) refusal(r record, st state.State) error {
	switch {
	case !r.known:
		return s.trouble(NotJoined, "")
	case !r.Holds && r.Trouble != "":
		return s.trouble(r.Trouble, r.Detail)
	case !r.Holds:
		return s.standby(r, "")
	case st.Serial > r.Head.Serial && !r.Unsettled:
		return s.trouble(OwnLife, fmt.Sprintf("serial %d, in the servers %d", st.Serial, r.Head.Serial))
	}
	return nil
}

// refresh reads the head and makes the cache hold it, if it is of this host.
func (s *Seat) refresh(ctx context.Context, c *store.Cache, r *record) error {
	h, err := s.loadAtLeast(ctx, r, r.Revision)
	if err != nil {
		return err
	}
	return s.settle(ctx, c, r, h)
}

// settle compares the head of the servers with the record of a holder. If the head is of this host,
// settle makes the cache hold it. Otherwise the seat is lost.
func (s *Seat) settle(ctx context.Context, c *store.Cache, r *record, h fleet.Head) error {
	e, err := s.open(r, h)
	if err != nil {
		return err
	}
	ours := e.Commit == r.Head.Commit || e.Seat == r.Head.Seat && slices.Contains(r.Offers, e.Commit)
	if !ours {
		return s.lose(r, h, e)
	}
	if h.Revision != r.Revision || c.State.Serial != e.Serial || c.Recovery.Reason != "" {
		if err := s.install(ctx, c, r, e, true); err != nil {
			return err
		}
	}
	s.adopt(r, h, e)
	r.Unsettled = false
	if e.Lease == 0 {
		return s.released(r)
	}
	return s.write(*r)
}

// adopt records that the directory is a copy of this head.
func (s *Seat) adopt(r *record, h fleet.Head, e envelope) {
	r.Head, r.Revision, r.Size = e.header, h.Revision, len(h.Body)
	r.Head.Files = nil // they are in Local
	r.known = true
}

// lose records that another host has the seat, or a twin of this one.
func (s *Seat) lose(r *record, h fleet.Head, e envelope) error {
	reason := ""
	switch {
	case e.Seat == r.Head.Seat, r.Holds && e.Host == s.Host:
		reason = "ANOTHER MACHINE USES THE NAME OF THIS HOST: set [fleet] host on one of the two"
	case r.Holds:
		reason = "it took the seat from this host"
	}
	r.demote()
	s.see(r, h, e)
	if err := s.write(*r); err != nil {
		return err
	}
	return s.standby(*r, reason)
}

// open decodes a head and checks it.
func (s *Seat) open(r *record, h fleet.Head) (envelope, error) {
	switch {
	case h.Revision == 0 || h.Body == nil:
		return envelope{}, s.fail(r, Forgot, fmt.Sprintf("they have none of it, and this host has change %d", r.Revision))
	case !h.Signed:
		return envelope{}, s.fail(r, Foreign, fmt.Sprint(h.Revision))
	}
	e, err := decode(h.Body)
	if err != nil {
		return envelope{}, err
	}
	if e.Agent != s.Handle {
		return envelope{}, s.fail(r, Foreign, fmt.Sprint(h.Revision))
	}
	if e.Left {
		return envelope{}, s.fail(r, Left, e.Host)
	}
	return e, nil
}

// fail records a trouble and returns its error. The seat stays: if the servers show the right head
// again, this host goes on. Until then the servers accept no head, so the lease ends.
func (s *Seat) fail(r *record, why Trouble, detail string) error {
	if r.known {
		r.Trouble, r.Detail = why, detail
		if err := s.write(*r); err != nil {
			return err
		}
	}
	return s.trouble(why, detail)
}

// loadAtLeast reads the head until its revision is at least the given one: a server may lag behind
// the one that named the revision. If all show an older head than this host knows, they have
// forgotten it.
func (s *Seat) loadAtLeast(ctx context.Context, r *record, revision uint64) (fleet.Head, error) {
	for tries := 0; ; tries++ {
		h, err := s.Engine.LoadHead(ctx)
		if err != nil || h.Revision >= revision {
			return h, err
		}
		if h.Revision > 0 && s.newerTerm(*r, h) {
			return h, nil // of servers that were made again
		}
		if tries == maxTries && h.Revision < r.Revision && r.Trouble == Forgot {
			return h, s.fail(r, Forgot, fmt.Sprintf("they show change %d, and this host knows change %d", h.Revision, r.Revision))
		}
		if tries == maxTries && h.Revision < r.Revision {
			// All may lag. If the next look sees the same, they have forgotten.
			r.Trouble, r.Detail = Forgot, fmt.Sprintf("they show change %d, and this host knows change %d", h.Revision, r.Revision)
			if err := s.write(*r); err != nil {
				return h, err
			}
		}
		if tries == maxTries {
			return h, fmt.Errorf("they show change %d of the state, and this host knows change %d: %w", h.Revision, max(revision-1, r.Revision), ErrUnsure)
		}
		if err := s.pause(ctx, retryAfter); err != nil {
			return h, err
		}
	}
}

const (
	retryAfter = 250 * time.Millisecond
	maxTries   = int(within / retryAfter)
)

// newerTerm reports whether a head is of a later seat than the record.
func (s *Seat) newerTerm(r record, h fleet.Head) bool {
	if h.Body == nil || !h.Signed {
		return false
	}
	e, err := decode(h.Body)
	return err == nil && e.Term > r.Head.Term
}

// Accept implements store.Arbiter: it stores the files and blocks of the next state, then offers it.
func (s *Seat) Accept(ctx context.Context, c *store.Cache, next state.State, data []byte) error {
	r, err := s.read()
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, uploadWithin)
	defer cancel()
	e, err := s.next(within, c, &r, next, data)
	if err != nil {
		return err
	}
	return s.offer(ctx, c, &r, e)
}

// next returns the head for the next state, and stores the files and the block that it relies on.
func (s *Seat) next(ctx context.Context, c *store.Cache, r *record, next state.State, data []byte) (envelope, error) {
	files, err := s.upload(ctx, r, next, func() error { return s.keepLease(ctx, c, r) })
	if err != nil {
		return envelope{}, fmt.Errorf("store the files of the state in the servers: %w", err)
	}
	r.Local = files
	return s.head(ctx, r, next.Serial, data)
}

// head returns a head for a state whose files are stored, and stores the block that it relies on.
func (s *Seat) head(ctx context.Context, r *record, serial uint64, data []byte) (envelope, error) {
	e := envelope{header: r.Head, state: data}
	e.Agent, e.Serial, e.Host, e.Program, e.Lease, e.To, e.Files = s.Handle, serial, s.Host, s.Program, s.Lease, "", nil
	for _, f := range r.Local {
		if f.Stored > 0 { // the others wait for the rest of an upload
			e.Files = append(e.Files, f.file)
		}
	}
	if err := s.sealIDKey(ctx, &e); err != nil {
		return envelope{}, err
	}
	if err := s.tail(ctx, &e); err != nil {
		return envelope{}, fmt.Errorf("store the history in the servers: %w", err)
	}
	return e, nil
}

// keepLease renews a lease that a long upload would use up.
func (s *Seat) keepLease(ctx context.Context, c *store.Cache, r *record) error {
	_, now, err := s.Clock()
	if err != nil || !r.Holds || r.End-now > r.Head.Lease*9/10 {
		return err
	}
	data, err := c.Data()
	if err != nil {
		return err
	}
	e, err := s.head(ctx, r, c.State.Serial, data)
	if err != nil {
		return err
	}
	return s.offer(ctx, c, r, e)
}

// offer offers a head as the successor of the one in the record, and records the outcome. The lease
// begins when the offer is first sent, however late its answer comes.
func (s *Seat) offer(ctx context.Context, c *store.Cache, r *record, e envelope) error {
	e.Commit, e.Beat, e.At = s.NewID(), e.Beat+1, s.Now().UTC()
	body, err := e.encode()
	if err != nil {
		return err
	}
	_, sent, err := s.Clock()
	if err != nil {
		return err
	}
	r.Offers = append(r.Offers, e.Commit)
	r.Offers = r.Offers[max(0, len(r.Offers)-maxOffers):]
	r.Unsettled = true
	if err := s.write(*r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var doubt error
	for tries := 0; ; tries++ {
		revision, err := s.Engine.OfferHead(ctx, r.Revision, body)
		refused, isRefused := errors.AsType[*fleet.Refused](err)
		switch {
		case err == nil:
			return s.accepted(r, e, fleet.Head{Revision: revision, Body: body}, sent)
		case isRefused:
			return s.refused(ctx, c, r, e, refused.Last, sent)
		case fleet.Unsure(err):
			doubt = err
		case doubt == nil: // no offer was stored
			r.Unsettled = false
			return errors.Join(err, s.write(*r))
		}
		if tries == maxTries || s.pause(ctx, retryAfter) != nil {
			return fmt.Errorf("%w: %w", ErrUnsure, errors.Join(doubt))
		}
	}
}

// accepted records an accepted head of this host.
func (s *Seat) accepted(r *record, e envelope, h fleet.Head, sent time.Duration) error {
	s.adopt(r, h, e)
	r.Holds, r.Unsettled, r.Trouble, r.Detail = true, false, "", ""
	r.End, r.Seen = sent+e.Lease, sighting{}
	if e.Lease == 0 {
		r.Holds, r.End = false, 0
	}
	return s.write(*r)
}

// refused finds out why an offer was refused: its first try may have been stored although the
// answer was lost, an earlier offer may have come late, or another host has the seat.
func (s *Seat) refused(ctx context.Context, c *store.Cache, r *record, e envelope, last uint64, sent time.Duration) error {
	if last > 0 && last < r.Revision {
		h, err := s.Engine.LoadHead(ctx)
		if err != nil {
			return err
		}
		if !s.newerTerm(*r, h) {
			return s.fail(r, Forgot, fmt.Sprintf("they are at change %d, and this host has change %d", last, r.Revision))
		}
	}
	h, err := s.loadAtLeast(ctx, r, max(last, r.Revision+1))
	if err != nil {
		return err
	}
	newer, err := s.open(r, h)
	if err != nil {
		return err
	}
	switch {
	case newer.Commit == e.Commit:
		return s.accepted(r, e, h, sent)
	case !r.Holds && slices.Contains(r.Offers, newer.Commit) && newer.Lease > 0: // an earlier claim came late
		return s.resume(ctx, c, r, h, newer)
	case newer.Seat == r.Head.Seat && slices.Contains(r.Offers, newer.Commit):
		if err := s.settle(ctx, c, r, h); err != nil {
			return err
		}
		return store.ErrRebase
	}
	return s.lose(r, h, newer)
}
