package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Step is the machine (DESIGN 5): it takes what is remembered, what happened
// and the time, and returns what is to be remembered now. What is to be done
// is in there as data: rows of the outbox, the interval, flags and
// acknowledgements owed, history lines. Step is pure and total: it changes
// none of its arguments and has an answer for every state and event.
//
// Events are stepped in the order given, arrivals after the rest and among
// themselves in the order of their own time, Polled last.
func Step(s State, events []Event, p Policy, now time.Time) State {
	m := machine{State: s.clone(), policy: p, now: now.UTC().Round(0)} // as it is read back, without the monotonic clock
	m.Serial++
	m.Version = Version
	if m.PhaseSince.IsZero() {
		m.PhaseSince = m.now
	}
	m.unskew()
	m.age()
	m.prune()
	m.openCredit()
	m.recordTier() // another day, or another budget: what follows happens in it
	if startsCycle(events) {
		m.beginCycle()
	}
	m.expireChallenges()
	for _, e := range inOrder(events) {
		e.apply(&m)
	}
	m.resumeLate()
	m.expire()
	m.reportOutages()
	m.reroute()
	m.stillWorking()
	m.recordTier()
	m.LastStep = m.now
	m.recordHead(s.Turn)
	if n := len(m.Lines); n > 0 {
		m.Lines[n-1].Last = true
	}
	return m.State
}

// recordHead puts the turn head, and its message's row, on the last line of a step
// that changed the head, so that both can be had from the history.
func (m *machine) recordHead(before Head) {
	if len(m.Lines) == 0 || reflect.DeepEqual(before, m.Turn) {
		return
	}
	l := &m.Lines[len(m.Lines)-1]
	head := m.Turn
	head.Waiting = slices.Clone(head.Waiting)
	l.Head = &head
	if i, there := m.message(cmp.Or(head.Key, before.Key)); there {
		row := m.Inbox[i]
		l.Row = &row
	}
}

// machine is one Step under way.
type machine struct {
	State
	policy   Policy
	now      time.Time
	mailRead bool // mail was read to its end in this step
}

// mint makes an id that no other mint of this agent gives, restored backups
// included: kind, a dot, and 80 bits that depend on seed, counter and time.
func (m *machine) mint(kind string) string {
	m.Minted++
	return kind + "." + hashHex(fmt.Sprintf("%s|%s|%d|%d|%d", m.Seed, kind, m.Minted, m.Serial, m.now.UnixNano()))[:20]
}

func hashHex(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// line adds a history line of this step.
func (m *machine) line(l Line) {
	l.Serial, l.N, l.At = m.Serial, len(m.Lines), m.now
	m.Lines = append(m.Lines, l)
}
