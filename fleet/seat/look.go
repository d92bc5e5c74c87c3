package seat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"agentstateloop/fleet"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Look is the first act of a poll. The holder renews its lease, and answers a wish for the seat. A
// standby copies a new head into its directory, and takes the seat if its holder has released it or
// is silent for too long. If this host does not act after that, the error is a *StandbyError.
func (s *Seat) Look(ctx context.Context) error {
	return s.Store.Exclusive(ctx, func(c *store.Cache) error {
		r, err := s.read()
		if err != nil {
			return err
		}
		if r.known && r.Holds {
			if err := s.beat(ctx, c, &r); err != nil {
				return err
			}
			if err := s.renewFiles(ctx, &r); err != nil {
				return err
			}
			return s.grant(ctx, c, &r)
		}
		by := byPerson
		if s.Auto {
			by = byItself
		}
		err = s.watch(ctx, c, &r, by)
		if _, standby := errors.AsType[*StandbyError](err); standby && s.Looked != nil {
			_ = s.Looked(ctx) // the next poll does it again
		}
		return err
	})
}

// Beat renews the lease of the holder. A standby gets a *StandbyError, without use of the network.
func (s *Seat) Beat(ctx context.Context) error {
	return s.Store.Exclusive(ctx, func(c *store.Cache) error {
		r, err := s.read()
		if err != nil {
			return err
		}
		if r.Holds && !r.Unsettled && r.End-r.now > r.Head.Lease-beatEvery(r.Head.Lease) {
			return nil // another process has just renewed it
		}
		return s.beat(ctx, c, &r)
	})
}

// beat offers the head of the record again.
func (s *Seat) beat(ctx context.Context, c *store.Cache, r *record) error {
	return s.renew(ctx, c, r, func(*envelope) {})
}

// renew offers the state of the cache again, in a head that change has changed.
func (s *Seat) renew(ctx context.Context, c *store.Cache, r *record, change func(*envelope)) error {
	for range maxRebases {
		if err := s.refusal(*r, c.State); err != nil {
			return err
		}
		if r.Unsettled || r.now >= r.End && r.Revision > 0 || c.Recovery.Reason != "" || c.State.Serial != r.Head.Serial {
			if err := s.refresh(ctx, c, r); err != nil {
				return err
			}
		}
		data, err := c.Data()
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, uploadWithin)
		defer cancel()
		e, err := s.next(within, c, r, c.State, data)
		if err != nil {
			return err
		}
		change(&e)
		if err = s.offer(ctx, c, r, e); !errors.Is(err, store.ErrRebase) {
			return err
		}
	}
	return ErrUnsure
}

const maxRebases = 3

// wish is the note of a host that wants the seat.
type wish struct {
	Host string `json:"host"`
	Term uint64 `json:"term"` // of the seat that it wants
}

// grant releases the seat to a host that wishes for it, unless an agent works here.
func (s *Seat) grant(ctx context.Context, c *store.Cache, r *record) error {
	body, _, err := s.Engine.LoadWish(ctx)
	if err != nil {
		return nil // the next poll asks again
	}
	var w wish
	if json.Unmarshal(body, &w) != nil || w.Host == s.Host || w.Host == "" || w.Term != r.Head.Term {
		return nil
	}
	err = s.giveUp(ctx, c, r, w.Host)
	if errors.Is(err, ErrBusy) {
		return nil
	}
	return err
}

// ErrBusy means that an agent works here, so the seat cannot be released.
var ErrBusy = errors.New("the agent works on a turn here: wait for its end, or stop it with `agentstateloop stop`")

// idle holds turn.lock, so that no agent begins to work here. It returns ErrBusy if one works.
func (s *Seat) idle(st state.State) (*store.Lock, error) {
	lock, err := s.Store.TryLock(store.TurnLock)
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, ErrBusy
	}
	if Busy(st) {
		return nil, errors.Join(ErrBusy, lock.Unlock())
	}
	return lock, nil
}

// giveUp releases the seat, to the named host or to any. The result is a *StandbyError.
func (s *Seat) giveUp(ctx context.Context, c *store.Cache, r *record, to string) error {
	lock, err := s.idle(c.State)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	err = s.renew(ctx, c, r, func(e *envelope) { e.Lease, e.To = 0, to })
	if err != nil {
		return err
	}
	return s.released(r)
}

// released makes the host that has released the seat a standby, and the last one that takes it again.
func (s *Seat) released(r *record) error {
	r.Holds, r.End = false, 0
	r.Seen = sighting{Revision: r.Revision, Term: r.Head.Term, Beat: r.Head.Beat, Host: r.Head.Host, To: r.Head.To, At: r.Head.At, First: r.now, Wall: s.Now().UTC()}
	if err := s.write(*r); err != nil {
		return err
	}
	return s.standby(*r, "")
}

// taking says who wants the seat.
type taking int

// byPerson leaves the seat to a person, byItself takes that of a silent holder, and byHand also one
// that this host has released.
const (
	byPerson taking = iota
	byItself
	byHand
)

// watch is Look on a standby. It takes the seat of a silent holder, or a released one.
func (s *Seat) watch(ctx context.Context, c *store.Cache, r *record, take taking) error {
	h, err := s.loadAtLeast(ctx, r, min(r.Revision, 1)) // a server that lags may have none yet
	if err != nil {
		return err
	}
	if h.Revision == 0 && !r.known {
		return s.trouble(NotJoined, "")
	}
	e, err := s.open(r, h)
	if err != nil {
		return err
	}
	if older(e.Term, h.Revision, *r) {
		return s.lags(ctx, c, r, take)
	}
	if s.ownOffer(*r, e) {
		return s.resume(ctx, c, r, h, e)
	}
	if c.State.Serial > r.Head.Serial { // not a copy of an earlier head
		if err := s.mayReplace(c.State, e); err != nil {
			return err
		}
	}
	if err := s.copyHead(ctx, c, r, h, e); err != nil {
		return err
	}
	meant := r.Seen.Lease == 0 && (r.Seen.To == s.Host || r.Seen.To != "" && r.Seen.Host == s.Host)
	if take == byPerson && !meant || !s.lapsed(*r, take) {
		return s.standby(*r, "")
	}
	if err := s.fetchMissing(ctx, r); err != nil {
		return err
	}
	return s.claim(ctx, c, r, e)
}

// lags is watch for a head that is older than one that this host has seen: the server lags, or the
// servers have lost the newer one. A claim of the newer one, of which this directory is a copy, tells
// which: the servers refuse it if they have lost it.
func (s *Seat) lags(ctx context.Context, c *store.Cache, r *record, take taking) error {
	if r.Seen.Revision == 0 { // the boot is another one: the wait begins again
		r.Seen = sighting{Revision: r.Revision, Term: r.Head.Term, Beat: r.Head.Beat, Host: r.Head.Host, Lease: r.Head.Lease, To: r.Head.To, At: r.Head.At, First: r.now, Wall: s.Now().UTC()}
		if err := s.write(*r); err != nil {
			return err
		}
	}
	if take == byPerson || r.Revision != r.Seen.Revision || c.State.Serial != r.Head.Serial || !s.lapsed(*r, take) {
		return s.standby(*r, "")
	}
	data, err := c.Data()
	if err != nil {
		return err
	}
	e, err := s.head(ctx, r, c.State.Serial, data)
	if err != nil {
		return err
	}
	e.Lease = r.Head.Lease
	return s.claim(ctx, c, r, e)
}

// ownOffer reports whether a head is an offer by which this host took the seat, or joined first: an
// earlier process died before it knew.
func (s *Seat) ownOffer(r record, e envelope) bool {
	return !r.Holds && e.Lease > 0 && slices.Contains(r.Offers, e.Commit)
}

// resume makes this host the holder of such a head.
func (s *Seat) resume(ctx context.Context, c *store.Cache, r *record, h fleet.Head, e envelope) error {
	s.adopt(r, h, e)
	r.Holds, r.End, r.Unsettled, r.Seen = true, 0, false, sighting{}
	if err := s.write(*r); err != nil {
		return err
	}
	return s.beat(ctx, c, r)
}

// older reports whether a head is older than one that this host has seen. The servers may have been
// made again since, so a higher term is newer even with a lower revision.
func older(term, revision uint64, r record) bool {
	if seen := r.Seen; seen.Revision > 0 {
		return term < seen.Term || term == seen.Term && revision < seen.Revision
	}
	return r.known && (term < r.Head.Term || term == r.Head.Term && revision < r.Revision)
}

// mayReplace returns an error if the directory holds a state of another life: one that is not an
// ancestor of the head.
func (s *Seat) mayReplace(here state.State, e envelope) error {
	if here.Serial == 0 {
		return nil
	}
	var there state.State
	if err := json.Unmarshal(e.state, &there); err != nil {
		return damaged(err)
	}
	if here.Seed != there.Seed || here.Serial > there.Serial {
		return s.trouble(OwnLife, fmt.Sprintf("serial %d, in the servers %d", here.Serial, there.Serial))
	}
	return nil
}

// copyHead makes a standby's directory a copy of a head, and notes the sign of its holder. A beat
// alone changes no file but the record.
func (s *Seat) copyHead(ctx context.Context, c *store.Cache, r *record, h fleet.Head, e envelope) error {
	// The sign of the holder counts even if the copy fails.
	s.see(r, h, e)
	if err := s.write(*r); err != nil {
		return err
	}
	if c.State.Serial > e.Serial {
		// The servers were made again with an older state. This one may have what they lost.
		if err := c.SetAside(s.Now()); err != nil {
			return err
		}
	}
	if !r.known || e.Serial != r.Head.Serial || e.Serial != c.State.Serial || c.Recovery.Reason != "" {
		if err := s.evict(ctx, c.State); err != nil {
			return err
		}
		if err := s.install(ctx, c, r, e, false); err != nil {
			return err
		}
	}
	s.adopt(r, h, e)
	r.demote()
	r.Trouble, r.Detail = "", ""
	return s.write(*r)
}

func (s *Seat) evict(ctx context.Context, here state.State) error {
	if s.Evict == nil {
		return nil
	}
	return s.Evict(ctx, here)
}

// see notes a sign of the holder. The wait for its next one begins when the answer has arrived.
func (s *Seat) see(r *record, h fleet.Head, e envelope) {
	if r.Seen.Revision > 0 && r.Seen.Term == e.Term && r.Seen.Beat == e.Beat {
		return
	}
	if _, now, err := s.Clock(); err == nil {
		r.now = now
	}
	r.Seen = sighting{
		Revision: h.Revision, Term: e.Term, Beat: e.Beat, Host: e.Host, Program: e.Program, Lease: e.Lease, To: e.To,
		At: e.At, First: r.now, Wall: s.Now().UTC(),
	}
}

// lapsed reports whether this host may take the seat (F4).
func (s *Seat) lapsed(r record, take taking) bool {
	_, now, err := s.Clock()
	if err != nil {
		return false
	}
	seen := r.Seen
	waited := now - seen.First
	if seen.Lease > 0 {
		return waited >= lapseAfter(seen.Lease)
	}
	// The seat was released: to this host, to any, or to one that does not come.
	return seen.To == s.Host || seen.To == "" && (seen.Host != s.Host || take == byHand) || waited >= lapseAfter(s.Lease)
}

// claim takes the seat: a compare-and-set on the head whose holder is silent, with the next term.
func (s *Seat) claim(ctx context.Context, c *store.Cache, r *record, e envelope) error {
	if e.Lease > 0 && Busy(c.State) {
		r.Orphans = r.now + within + orphanWait(e.Lease)
	}
	e.Term, e.Seat, e.Host, e.Program, e.Lease, e.To, e.Beat = e.Term+1, s.NewID(), s.Host, s.Program, s.Lease, "", 0
	return s.offer(ctx, c, r, e)
}
