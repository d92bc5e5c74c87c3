package seat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// RecordFile holds the knowledge of this host about the seat. It is of this host alone: a copy of the
// file gives no right to act.
const RecordFile = store.FleetFile

const (
	recordVersion = 1
	maxRecord     = 16 << 20
	maxOffers     = 8
)

// record is the content of RecordFile. Its times are of the boot clock, and count only in the boot
// with the id Boot.
type record struct {
	Version int    `json:"version"`
	Host    string `json:"host"`
	Boot    string `json:"boot"`

	// The state directory is a copy of the head with this header and revision.
	Head     header `json:"head"`
	Revision uint64 `json:"revision"`
	Size     int    `json:"size"` // of that head in the servers, in bytes

	// Holds is set while this host has the seat of Head. End is when its lease ends; 0: unknown, so
	// no effect may begin before the next accepted head.
	Holds bool          `json:"holds,omitempty"`
	End   time.Duration `json:"end,omitempty"`

	// Offers are the commit ids of the newest offers, which the servers may accept late. Unsettled
	// is set while the answer to the last one is unknown.
	Offers    []string `json:"offers,omitempty"`
	Unsettled bool     `json:"unsettled,omitempty"`

	// Seen is the newest sign of the holder on a standby.
	Seen sighting `json:"seen,omitzero"`

	// Orphans is until when the turn of the host before is left alone.
	Orphans time.Duration `json:"orphans,omitempty"`

	Daily time.Time `json:"daily,omitzero"` // when DueDaily was true last

	Local   []localFile `json:"local,omitempty"` // the files of Head.Files, as they are here
	Trouble Trouble     `json:"trouble,omitempty"`
	Detail  string      `json:"detail,omitempty"` // of the trouble

	known  bool          // the file exists
	copied bool          // the file is a copy, or another host's
	now    time.Duration // when it was read
}

// sighting is a head that a standby has seen in the servers.
type sighting struct {
	Revision uint64        `json:"revision"`
	Term     uint64        `json:"term"`
	Beat     uint64        `json:"beat"`
	Host     string        `json:"host"`
	Program  string        `json:"program,omitempty"`
	Lease    time.Duration `json:"lease"`
	To       string        `json:"to,omitempty"`
	At       time.Time     `json:"at"`    // by the clock of the holder, for people
	First    time.Duration `json:"first"` // when the answer arrived that first showed this term and beat
	Wall     time.Time     `json:"wall"`  // the same by the clock of this host, for people
}

// demote takes the seat from the record. The servers may still accept its offers.
func (r *record) demote() { r.Holds, r.End, r.Unsettled = false, 0, false }

// HostIn returns the name under which this directory has joined a fleet, or "". A host without a name
// of its own in agent.toml keeps it, although its network may give the machine another one.
func HostIn(st *store.Store) string {
	data, copied, err := st.ReadIdentified(RecordFile, maxRecord)
	var r struct {
		Host string `json:"host"`
	}
	if err != nil || copied || json.Unmarshal(data, &r) != nil {
		return ""
	}
	return r.Host
}

// read returns the record, as far as it counts here and now.
func (s *Seat) read() (record, error) {
	boot, now, err := s.Clock()
	if err != nil {
		return record{}, fmt.Errorf("read the boot clock: %w", err)
	}
	data, copied, err := s.Store.ReadIdentified(RecordFile, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return record{Version: recordVersion, Host: s.Host, Boot: boot, now: now}, nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil || r.Version > recordVersion {
		return record{}, fmt.Errorf("%s cannot be read: %w", s.Store.Path(RecordFile), err)
	}
	r.known, r.now = true, now
	if r.copied = copied || r.Host != s.Host; r.copied {
		r.demote()
		r.Host, r.Seen, r.Offers = s.Host, sighting{}, nil
	}
	if r.Boot != boot {
		wait := orphanWait(max(r.Head.Lease, MinLease))
		if r.Boot, r.End, r.Seen.First = boot, 0, 0; r.Orphans > 0 {
			r.Orphans = now + wait // the times of another boot do not count
		}
		r.Seen.Revision = 0 // so that the wait begins again
	}
	return r, nil
}

// write saves the record.
func (s *Seat) write(r record) error {
	r.Version = recordVersion
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := s.Store.KeepIdentified(RecordFile, append(data, '\n')); err != nil {
		return fmt.Errorf("save %s: %w", RecordFile, err)
	}
	return nil
}

// Namesake is the reason of a standby whose holder has its name: another machine, or this one before its
// directory was lost or copied.
const Namesake = "THIS IS NOT THAT HOST: if another machine has the same name, set host in [fleet] to another one; if this directory is a copy, it acts when that host falls silent"

// standby returns the error for a host that does not have the seat.
func (s *Seat) standby(r record, reason string) error {
	e := &StandbyError{Handle: s.Handle, Holder: r.Seen.Host, Term: r.Seen.Term, Ago: r.now - r.Seen.First, Reason: reason}
	if r.Seen.Revision == 0 {
		e.Holder, e.Term, e.Ago = r.Head.Host, r.Head.Term, -1
	}
	if r.Seen.Revision > 0 && r.Seen.Lease == 0 {
		e.Holder, e.To = "", r.Seen.To
	}
	if e.Holder == s.Host && e.Reason == "" {
		e.Reason = Namesake
	}
	return e
}

// Busy reports whether an agent may run for the turn of a state.
func Busy(st state.State) bool {
	return st.Turn.InAttempt() && !st.Turn.Pulled || st.Turn.Lingering()
}
