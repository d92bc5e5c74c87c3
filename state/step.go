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

// Step is the machine (docs/design.md, "The machine"). It takes the remembered state, the events
// and the time, and returns the new state. The new state has all further work as data: rows of the
// outbox, the interval, flags and acknowledgements owed, history lines. Step is pure and total: it
// does not change its arguments, and it handles every event in every state.
//
// Step applies events in the order given, then arrivals in the order of their own time, then
// Polled. TestOrderOfStep holds the order of everything else.
func Step(s State, events []Event, p Policy, now time.Time) State {
	m := machine{State: s.clone(), policy: p, now: now.UTC().Round(0)} // without the monotonic clock, as state.json keeps it
	m.Serial++
	m.Version, m.IDsKeyed = Version, true
	if m.PhaseSince.IsZero() {
		m.PhaseSince = m.now
	}
	m.migrateDeadlines()
	m.clampClock()
	m.countLivedTime()
	m.prune()
	m.admitDeferred()
	m.releaseCollected()
	m.openCredit()
	m.recordTier() // the day or the budget may have changed since the last step
	if startsCycle(events) {
		m.beginCycle()
	}
	m.expireChallenges()
	for _, e := range inOrder(events) {
		e.apply(&m)
		m.trace = ""
	}
	m.resumeLate()
	m.endSuspension()
	m.forgetExpected()
	m.expire()
	m.forgetUndelivered()
	m.forgetUnfiled()
	m.withdrawNotices()
	m.forgetSending()
	m.expedite()
	m.updateOwing()
	m.reportOutages()
	m.tellLost()
	m.tellRateLimit()
	m.tellSelfHeld()
	m.reroute()
	m.mailStillWorking()
	m.settleAck()
	m.recordTier()
	m.numberUnfetched()
	m.endHookCalls()
	m.announce()
	m.LastStep = m.now
	m.Turn.ResumeBy = m.Turn.lastDeadline()
	m.recordHead(s.Turn)
	if n := len(m.Lines); n > 0 {
		m.Lines[n-1].Last = true
	}
	return m.State
}

// recordHead puts the turn head, and the row of its message, on the last line of
// a step that changed the head, so that both can be read back from the history.
func (m *machine) recordHead(before Head) {
	if len(m.Lines) == 0 || reflect.DeepEqual(before, m.Turn) {
		return
	}
	l := &m.Lines[len(m.Lines)-1]
	head := m.Turn
	head.Waiting, head.Given = slices.Clone(head.Waiting), slices.Clone(head.Given)
	l.Head = &head
	if row, ok := m.Message(cmp.Or(head.Key, before.Key)); ok {
		l.Row = &row
	}
}

// machine is one running Step.
type machine struct {
	State
	policy   Policy
	now      time.Time
	mailRead bool   // this step has read the mailbox to its end
	foreign  bool   // the UIDs of this step belong to another mailbox
	wokenFor string // sender and reason of the nudge that is applied now
	admitted bool   // a person let in the event that is applied now

	// heardFrom is the address of the operator's last mail in this step, or "".
	heardFrom string

	task Line // the task line replayed last

	seenOwned bool // Seen is a copy; see ownSeen

	trace string // of the chain of the event that is applied now, or ""
}

// mint returns a new id: kind, a dot, and 80 bits that depend on seed, counter
// and time, so that an agent restored from a backup mints different ids.
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
	l.Serial, l.N, l.At, l.Trace = m.Serial, len(m.Lines), m.now, m.traceOf(l)
	m.Lines = append(m.Lines, l)
}
