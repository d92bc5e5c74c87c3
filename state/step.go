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

// Step is the state machine (docs/design.md, "The machine"). It applies events to a state at a given
// time and returns the new state. It performs no effects: the new state lists the work that remains,
// such as mails to send, flags to set, messages to acknowledge and history lines to write. Step is
// pure and total: it does not change its arguments, and it accepts every event in every state.
//
// Step runs the rules in beforeEvents, applies the events, then runs the rules in endings, messages,
// plans and records. Events are applied in the given order, except that arrivals follow the other
// events, sorted by their own time, and Polled comes last.
func Step(s State, events []Event, p Policy, now time.Time) State {
	return StepInOrder(&s, events, p, now, nil)
}

// StepFunc is the type of Step. Tests replace Step with a function that also records its arguments.
type StepFunc func(s State, events []Event, p Policy, now time.Time) State

// StepInOrder is Step with the rules of each group in the order that the function returns for them,
// or as they are written if it is nil. The result is the same for every order that heeds After
// (TestFreeRulesCommute).
func StepInOrder(s *State, events []Event, p Policy, now time.Time, order func([]Rule) []Rule) State {
	m := newMachine(s, p, now)
	m.order = order
	m.step(events)
	return m.State
}

// newMachine returns the machine of a step from s. It takes a pointer because a state has 2.5 KB:
// with another copy of it, the stack of a process that has just begun must grow.
func newMachine(s *State, p Policy, now time.Time) *machine {
	return &machine{State: s.clone(), policy: p, now: now.UTC().Round(0), before: s.Turn, restored: s.Cursor.Restored} // without the monotonic clock, as state.json keeps it
}

// step runs the rules and applies the events.
func (m *machine) step(events []Event) {
	m.Serial++
	m.IDsKeyed = true
	if m.Place == "" || m.Elsewhere.Since.IsZero() {
		m.setPlace(cmp.Or(m.Place, placeOf(m.Seed)))
	}
	if m.PhaseSince.IsZero() {
		m.PhaseSince = m.now
	}
	m.newCycle = startsCycle(events)
	m.runAll(beforeEvents)
	for _, e := range inOrder(events) {
		e.apply(m)
		m.trace = ""
	}
	m.runAll(endings)
	m.runAll(messages)
	m.runAll(plans)
	m.runAll(records)
	m.Version = m.neededVersion()
}

// Rule is one part of every step. After names the rules of its group that run before it; the
// comment above the rule gives the reason. "Lines" is the reason of rules that write history lines
// or queue mails: these keep their order, in which a person reads them.
type Rule struct {
	Name  string
	After []string
	run   func(*machine)
}

// The rules before the events bring the state to the time of the step, so that an event never sees
// a deadline, a limit or a budget as it was at the step before.
var beforeEvents = []Rule{
	{"migrateDeadlines", nil, (*machine).migrateDeadlines},
	// A wait of an older version has a deadline to clamp only then.
	{"clampClock", []string{"migrateDeadlines"}, (*machine).clampClock},
	// A last step in the future would count as negative time.
	{"countLivedTime", []string{"clampClock"}, (*machine).countLivedTime},
	{"prune", nil, (*machine).prune},
	// The entries that prune forgets make room in the hour.
	{"admitDeferred", []string{"prune"}, (*machine).admitDeferred},
	{"releaseCollected", nil, (*machine).releaseCollected},
	{"openCredit", nil, (*machine).openCredit},
	// The day or the budget may have changed since the last step. Lines; and a mail that is queued
	// now has not waited yet.
	{"recordTier", []string{"openCredit", "countLivedTime"}, (*machine).recordTier},
	// Lines.
	{"beginCycle", []string{"recordTier"}, (*machine).beginCycle},
	// Lines.
	{"expireChallenges", []string{"beginCycle"}, (*machine).expireChallenges},
}

// The endings come first after the events: waits, rows and failures that are over must not cause a
// mail or a plan.
var endings = []Rule{
	{"timeOutQuestions", nil, (*machine).timeOutQuestions},
	// A question past its deadline is answered by "timeout", even if the operator has written.
	{"endSuspension", []string{"timeOutQuestions"}, (*machine).endSuspension},
	// Lines. A question that is given up may be expected from then on.
	{"forgetExpected", []string{"endSuspension"}, (*machine).forgetExpected},
	// The mail of a question is overtaken once the question is closed or forgotten.
	{"expireEffects", []string{"forgetExpected"}, (*machine).expireEffects},
	// A row that has waited for too long is given up, and may be one too many.
	{"forgetUndelivered", []string{"expireEffects"}, (*machine).forgetUndelivered},
	// Lines.
	{"forgetUnfiled", []string{"forgetUndelivered"}, (*machine).forgetUnfiled},
	// Lines. A notice is over once the rows that it is about are forgotten.
	{"withdrawNotices", []string{"forgetUnfiled"}, (*machine).withdrawNotices},
	// The failure ends when the last mail has left the outbox.
	{"endSendingFailure", []string{"withdrawNotices"}, (*machine).endSendingFailure},
	// Lines.
	{"endElsewhere", []string{"endSendingFailure"}, (*machine).endElsewhere},
}

// The messages to the operator follow the endings, because they report only what is still so. They
// leave in this order.
var messages = []Rule{
	{"tellRestored", nil, (*machine).tellRestored},
	{"tellElsewhere", []string{"tellRestored"}, (*machine).tellElsewhere},
	{"reportOutages", []string{"tellElsewhere"}, (*machine).reportOutages},
	{"tellLost", []string{"reportOutages"}, (*machine).tellLost},
	{"tellRateLimit", []string{"tellLost"}, (*machine).tellRateLimit},
	{"tellSelfHeld", []string{"tellRateLimit"}, (*machine).tellSelfHeld},
	{"reroute", []string{"tellSelfHeld"}, (*machine).reroute},
	{"mailStillWorking", []string{"reroute"}, (*machine).mailStillWorking},
	// A mail about a long turn replaces the ack of its message.
	{"settleAck", []string{"mailStillWorking"}, (*machine).settleAck},
	{"recordTier", []string{"settleAck"}, (*machine).recordTier},
}

// The plans follow the messages, because pauses and the interval depend on the rows that the outbox
// has now.
var plans = []Rule{
	{"expedite", nil, (*machine).expedite},
	{"updateOwing", nil, (*machine).updateOwing},
	{"numberUnfetched", nil, (*machine).numberUnfetched},
}

// The records come last, because they report the whole step: to the hooks, and to a recovery.
var records = []Rule{
	{"endHookCalls", nil, (*machine).endHookCalls},
	// Rows that are given up make room for the announcements, and their notice is announced too.
	{"announce", []string{"endHookCalls"}, (*machine).announce},
	{"noteStep", nil, (*machine).noteStep},
	// The last line has the head, with the deadline that noteStep notes.
	{"recordHead", []string{"announce", "noteStep"}, (*machine).recordHead},
	{"markLast", []string{"announce"}, (*machine).markLast},
}

// runAll runs the rules of one group.
func (m *machine) runAll(group []Rule) {
	if m.order != nil {
		group = m.order(group)
	}
	for _, r := range group {
		r.run(m)
	}
}

// noteStep records the time of the step, and the latest deadline of the turn.
func (m *machine) noteStep() {
	m.LastStep = m.now
	m.Turn.ResumeBy = m.Turn.lastDeadline()
}

// recordHead puts the turn head, and the row of its message, on the last line of
// a step that changed the head, so that both can be read back from the history.
func (m *machine) recordHead() {
	if len(m.Lines) == 0 || reflect.DeepEqual(m.before, m.Turn) {
		return
	}
	l := &m.Lines[len(m.Lines)-1]
	head := m.Turn
	head.Waiting, head.Given = slices.Clone(head.Waiting), slices.Clone(head.Given)
	l.Head = &head
	if row, ok := m.Message(cmp.Or(head.Key, m.before.Key)); ok {
		l.Row = &row
	}
}

// markLast marks the last line, so that a torn commit can be recognised.
func (m *machine) markLast() {
	if n := len(m.Lines); n > 0 {
		m.Lines[n-1].Last = true
	}
}

// machine is one running Step.
type machine struct {
	State
	policy   Policy
	now      time.Time
	before   Head          // the turn head before the step
	restored *RestoredMail // before the step
	newCycle bool          // the step ends the first observation of a poll
	order    func([]Rule) []Rule

	mailRead bool   // this step has read the mailbox to its end
	restores bool   // this step restores the state, so its cursors come from before that
	newSign  bool   // this step has a new sign of another machine
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
