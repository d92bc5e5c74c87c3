package seat

import (
	"context"
	"fmt"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// MayBegin returns nil if this host may begin an effect now, and then for how long the effect may
// last (F1). It uses no network.
func (s *Seat) MayBegin() (left time.Duration, err error) {
	r, err := s.read()
	if err != nil {
		return 0, err
	}
	if !r.known {
		return 0, s.trouble(NotJoined, "")
	}
	if !r.Holds {
		return 0, s.standby(r, "")
	}
	if !mayBegin(r.now, r.End) {
		return 0, fmt.Errorf("the lease of %s is over or nearly over: the servers have not answered since %s", s.Host, ago(r.now-(r.End-r.Head.Lease)))
	}
	return effectsEnd(r.End) - r.now, nil
}

// Here returns nil if this host acts, as far as it is known here.
func (s *Seat) Here() error {
	r, err := s.read()
	if err != nil {
		return err
	}
	return s.refusal(r, state.State{})
}

// Fence is the state of the lease, for the processes that run here.
type Fence int

// The fences. An agent that runs must get TERM, or KILL at once.
const (
	Free Fence = iota
	Term
	Kill
	Unknown // this host is not in the fleet, or its record was removed
)

// Fence returns the fence of an agent that runs here (F2, F3), and after which time to ask
// again. It uses no network. A record that cannot be read counts as a lost seat.
func (s *Seat) Fence() (f Fence, again time.Duration) {
	r, err := s.read()
	switch {
	case err == nil && !r.known:
		return Unknown, time.Minute
	case err != nil, !r.Holds:
		return Kill, 0
	case mustKill(r.now, r.End):
		return Kill, 0
	case r.now >= effectsEnd(r.End):
		return Term, r.End - killMargin - r.now
	}
	return Free, min(effectsEnd(r.End)-r.now, beatEvery(r.Head.Lease))
}

// BeatEvery returns the pause between the beats of a runner.
func (s *Seat) BeatEvery() time.Duration { return beatEvery(s.Lease) }

// PollEvery returns the longest pause between two polls that the lease allows for.
func (s *Seat) PollEvery() time.Duration { return pollEvery(s.Lease) }

// Orphaned returns how long the turn of the host before must be left alone (F6); 0: it is over.
func (s *Seat) Orphaned() (time.Duration, error) {
	r, err := s.read()
	if err != nil {
		return 0, err
	}
	return max(0, r.Orphans-r.now), nil
}

// View is the knowledge of this host about the seat.
type View struct {
	Joined  bool
	Here    bool // this host holds the seat
	Holder  string
	To      string // the host that a released seat waits for, or ""
	Term    uint64
	Program string        // the version of the holder
	Ago     time.Duration // since the newest sign of the holder; here, since the newest accepted head
	Left    time.Duration // of the lease of this host; negative if it is over or unknown
	Known   bool          // Ago and Left are known: this machine has not started again since
	CutOff  bool          // this host holds the seat, but nothing may begin: its lease is over or nearly over
	Lease   time.Duration
	Size    int // of the head in the servers, in bytes
	Blocks  uint64
	Orphans time.Duration // how long the turn of the host before is left alone
	Trouble Trouble
	Text    string // of the trouble, or ""
}

// View returns the knowledge of this host. It uses no network, and takes no lock.
func (s *Seat) View() (View, error) {
	r, err := s.read()
	if err != nil {
		return View{}, err
	}
	v := View{
		Joined: r.known, Here: r.Holds, Holder: r.Head.Host, Term: r.Head.Term, Program: r.Head.Program, Lease: r.Head.Lease,
		Size: r.Size, Blocks: r.Head.Blocks, Trouble: r.Trouble, Left: r.End - r.now, Ago: r.now - (r.End - r.Head.Lease), Orphans: max(0, r.Orphans-r.now),
	}
	v.Known, v.CutOff = r.Holds && r.End > 0, r.Holds && !mayBegin(r.now, r.End)
	if seen := r.Seen; !r.Holds && seen.Host != "" {
		v.Holder, v.To, v.Term, v.Program, v.Lease, v.Ago = seen.Host, seen.To, seen.Term, seen.Program, seen.Lease, r.now-seen.First
		v.Known = seen.First > 0
	}
	if !r.Holds {
		v.Left = -1
	}
	if v.Lease == 0 {
		v.Holder = "" // the seat was released
	}
	switch {
	case r.Trouble != "":
		v.Text = s.trouble(r.Trouble, r.Detail).Error()
	case !r.known:
		v.Trouble, v.Text = NotJoined, s.trouble(NotJoined, "").Error()
	}
	return v, nil
}

// DueDaily reports, once a day, that a chore of this host is due.
func (s *Seat) DueDaily() (due bool, err error) {
	err = s.Store.Exclusive(context.Background(), func(*store.Cache) error {
		r, err := s.read()
		if err != nil || !r.known || s.Now().Sub(r.Daily).Abs() < 24*time.Hour {
			return err
		}
		r.Daily, due = s.Now().UTC(), true
		return s.write(r)
	})
	return due, err
}
