package seat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/state/store"
)

// Joined is the result of Join.
type Joined struct {
	Holder  string // the host that acts now
	Here    bool   // that is this host
	Term    uint64
	Made    bool // the servers had no state: they have that of this directory now
	Aside   bool // the state of this directory was set aside
	Already bool // this host was a member before
}

// Join brings this directory into the fleet. If the servers have no state of the agent, they get
// that of this directory, and this host has the seat. Otherwise the directory becomes a copy of
// theirs, and the host a standby. A state of another life is refused. With replace it is set aside;
// but if the servers have lost the last head of this host, or their state has a wrong signature, they
// get the state of this directory.
//
// Join may be interrupted at any point, and repeated.
func (s *Seat) Join(ctx context.Context, replace bool) (j Joined, err error) {
	if _, err := s.Store.IDKey(s.Now()); err != nil {
		return j, err
	}
	err = s.Store.Exclusive(ctx, func(c *store.Cache) error {
		r, err := s.read()
		if err != nil {
			return err
		}
		h, err := s.Engine.LoadHead(ctx)
		if err != nil {
			return err
		}
		var e envelope
		usable := h.Body != nil && h.Signed
		if usable {
			if e, err = decode(h.Body); err != nil {
				return err
			}
		}
		if usable && e.Left && e.Host != s.Host {
			if !replace {
				return s.fail(&r, Left, e.Host) // it may have changed since, there
			}
			// The person says that the other host is gone: its last state in the servers goes on.
			j.Aside = c.State.Serial > 0 && s.mayReplace(c.State, e) != nil
			if j.Aside {
				if err := c.SetAside(s.Now()); err != nil {
					return err
				}
			}
			if err := s.install(ctx, c, &r, e, false); err != nil {
				return err
			}
		}
		forgot := r.known && (r.Trouble == Forgot || r.Trouble == Foreign) && (!usable || older(e.Term, h.Revision, r))
		switch {
		case h.Revision > 0 && !usable && !replace && h.Body != nil:
			return s.trouble(Foreign, fmt.Sprint(h.Revision))
		case r.Revision > 0 && h.Revision == 0 && !replace:
			return s.fail(&r, Forgot, fmt.Sprintf("they have none of it, and this host has change %d", r.Revision))
		case !usable, e.Left, forgot && replace:
			j, err = s.create(ctx, c, &r, h, e)
			return err
		}
		j, err = s.follow(ctx, c, &r, h, e, replace)
		return err
	})
	return j, err
}

// create puts the state of this directory into the servers, after the head h, which counts no more.
func (s *Seat) create(ctx context.Context, c *store.Cache, r *record, h fleet.Head, before envelope) (Joined, error) {
	seat, offers := s.NewID(), []string(nil)
	if r.Unsettled && r.Revision == h.Revision {
		seat, offers = r.Head.Seat, r.Offers // the servers may still accept an earlier try
	}
	r.known, r.Trouble, r.Detail = true, "", ""
	r.demote()
	r.Revision, r.Offers = h.Revision, offers
	r.Head = header{Term: max(before.Term, r.Head.Term), Blocks: before.Blocks, BlocksEnd: before.BlocksEnd, Series: cmp.Or(before.Series, s.NewID())}
	r.Local, r.Seen = nil, sighting{}
	data, err := c.Data()
	if err != nil {
		return Joined{}, err
	}
	e, err := s.next(ctx, c, r, c.State, data)
	if err != nil {
		return Joined{}, err
	}
	e.Term, e.Seat = e.Term+1, seat
	r.Head.Seat = e.Seat
	err = s.offer(ctx, c, r, e)
	if errors.Is(err, store.ErrRebase) { // they have accepted an earlier try
		r.Holds = true
		err = s.beat(ctx, c, r)
	}
	if err != nil {
		return Joined{}, err
	}
	return Joined{Holder: s.Host, Here: true, Term: e.Term, Made: true}, nil
}

// follow makes this directory a copy of the head.
func (s *Seat) follow(ctx context.Context, c *store.Cache, r *record, h fleet.Head, e envelope, replace bool) (j Joined, err error) {
	if r.known && r.Holds && e.Seat == r.Head.Seat {
		return Joined{Holder: s.Host, Here: true, Term: e.Term, Already: true}, nil
	}
	if s.ownOffer(*r, e) {
		return Joined{Holder: s.Host, Here: true, Term: e.Term, Made: r.Revision == 0}, s.resume(ctx, c, r, h, e)
	}
	j = Joined{Holder: e.Host, Term: e.Term, Already: r.known}
	if c.State.Serial > min(r.Head.Serial, e.Serial) { // not a copy of an earlier head
		err := s.mayReplace(c.State, e)
		own, isOwn := errors.AsType[*TroubleError](err)
		if isOwn && own.Trouble == OwnLife && replace {
			if err = c.SetAside(s.Now()); err == nil {
				r.known, r.Revision, r.Local = false, 0, nil
				j.Aside, j.Already = true, false
			}
		}
		if err != nil {
			return Joined{}, err
		}
	}
	if e.Lease == 0 {
		j.Holder = ""
	}
	return j, s.copyHead(ctx, c, r, h, e)
}

// Leave takes the agent out of the fleet: this host, the holder, keeps it alone, and every other
// host stops. It returns ErrBusy while an agent works here. A standby only forgets that it was one.
func (s *Seat) Leave(ctx context.Context) (alone bool, err error) {
	err = s.Store.Exclusive(ctx, func(c *store.Cache) error {
		r, err := s.read()
		if err != nil {
			return err
		}
		if r.known && r.Holds {
			lock, err := s.idle(c.State)
			if err != nil {
				return err
			}
			defer lock.Unlock()
			if err := s.renew(ctx, c, &r, func(e *envelope) { e.Term, e.Lease, e.Left = e.Term+1, 0, true }); err != nil {
				return err
			}
			alone = true
		}
		return s.Store.Remove(RecordFile)
	})
	return alone, err
}

// Release gives the seat up, for any other host. It returns ErrBusy while an agent works here.
func (s *Seat) Release(ctx context.Context) error {
	err := s.Store.Exclusive(ctx, func(c *store.Cache) error {
		r, err := s.read()
		if err != nil {
			return err
		}
		if err := s.refusal(r, c.State); err != nil {
			return err
		}
		return s.giveUp(ctx, c, &r, "")
	})
	if standby, ok := errors.AsType[*StandbyError](err); ok && standby.Holder == "" {
		return nil
	}
	return err
}

// Take moves the seat to this host. It asks the holder, and waits until the holder has released the
// seat or its lease has run out, or until ctx ends. ring is called after the request is stored, to
// wake the holder. waits is called with each reason to wait, at most once a second: a *StandbyError,
// or the error of servers that do not answer.
func (s *Seat) Take(ctx context.Context, ring func(context.Context), waits func(error)) error {
	asked := uint64(0)
	for {
		err := s.Store.Exclusive(ctx, func(c *store.Cache) error {
			r, err := s.read()
			if err != nil {
				return err
			}
			if r.known && r.Holds {
				return s.beat(ctx, c, &r)
			}
			return s.watch(ctx, c, &r, byHand)
		})
		standby, isStandby := errors.AsType[*StandbyError](err)
		if err == nil || !isStandby && !fleet.Unsure(err) {
			return errors.Join(err, s.withdraw(asked > 0))
		}
		if ctx.Err() == nil {
			waits(err)
		}
		if isStandby {
			if asked != standby.Term && standby.Holder != "" {
				if err := s.ask(ctx, standby.Term); err != nil {
					return err
				}
				asked = standby.Term
				ring(ctx)
			}
		}
		if s.pause(ctx, time.Second) != nil {
			if r, readErr := s.read(); readErr == nil && r.Trouble != "" {
				err = s.trouble(r.Trouble, r.Detail)
			}
			return errors.Join(err, s.withdraw(asked > 0))
		}
	}
}

func (s *Seat) ask(ctx context.Context, term uint64) error {
	body, err := json.Marshal(wish{Host: s.Host, Term: term})
	if err != nil {
		return err
	}
	return s.Engine.SetWish(ctx, body)
}

// withdraw removes the wish of this host.
func (s *Seat) withdraw(asked bool) error {
	if !asked {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return s.Engine.SetWish(ctx, nil)
}

// InFleet reports whether a state directory belongs to a fleet. A directory that cannot be read is
// another error.
func InFleet(st *store.Store) bool {
	_, err := os.Lstat(st.Path(RecordFile))
	return err == nil
}
