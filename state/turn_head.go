package state

import (
	"cmp"
	"slices"
	"time"
)

// Work is the active turn, and what the turns before it have left behind.
type Work struct {
	Turn          Head          `json:"turn"`
	Epoch         uint64        `json:"epoch"`                // the highest ever
	Asleep        bool          `json:"asleep,omitempty"`     // the last turn left nothing to do
	SleepUntil    time.Time     `json:"sleep_until,omitzero"` // the agent asked to be left alone until then
	SleepFor      time.Duration `json:"sleep_for,omitempty"`  // how long it asked for
	Streak        SelfStreak    `json:"self_streak,omitzero"`
	Reset         Reset         `json:"reset,omitzero"` // the last one
	FailedTurns   int           `json:"failed_turns,omitempty"`
	CooldownUntil time.Time     `json:"cooldown_until,omitzero"`
}

func (w *Work) clampTimes(c clamp, p Policy) {
	c.past(&w.Turn.Since, &w.Reset.At)
	for i := range w.Turn.Given {
		w.Turn.Given[i].clampTimes(c)
	}
	for i := range w.Turn.Waiting {
		w.Turn.Waiting[i].clampTimes(c)
	}
	c.deadline(&w.CooldownUntil, p.Cooldown)
	c.deadline(&w.SleepUntil, cmp.Or(w.SleepFor, MaxSleep)) // 0 in states of an older version
}

func (w *Wait) clampTimes(c clamp) {
	c.past(&w.Asked)
	c.deadline(&w.By, min(w.Span, MaxPatience))
}

// HeadStatus is the status of the one active turn (docs/design.md, "Turns").
type HeadStatus string

// The statuses of the turn head: idle → dispatched → running ↔ suspended → idle.
const (
	HeadIdle       HeadStatus = "idle"
	HeadDispatched HeadStatus = "dispatched"
	HeadRunning    HeadStatus = "running"
	HeadSuspended  HeadStatus = "suspended"
)

var headStatuses = [...]HeadStatus{HeadIdle, HeadDispatched, HeadRunning, HeadSuspended}

// Outcome is how a turn ended.
type Outcome string

// The outcomes. Each comes with exactly one deliverable.
const (
	Success  Outcome = "success"
	Failed   Outcome = "failed"
	Canceled Outcome = "canceled"
	Timeout  Outcome = "timeout"
	Partial  Outcome = "partial"
)

// Valid reports whether o is one of the outcomes.
func (o Outcome) Valid() bool { return slices.Contains(outcomes[:], o) }

var outcomes = [...]Outcome{Success, Failed, Canceled, Timeout, Partial}

// Head is the turn head: the active turn, and the attempt that may write for it. (Epoch, TurnID)
// gates every write of a turn. The epoch rises at every process start and every reap, which exposes
// a stale owner.
type Head struct {
	Status  HeadStatus `json:"status"`
	TurnID  string     `json:"turn_id,omitempty"`
	Epoch   uint64     `json:"epoch,omitempty"`
	Key     string     `json:"key,omitempty"` // of the message
	Since   time.Time  `json:"since,omitzero"`
	Working bool       `json:"working,omitempty"` // the "still working" mail was made
	Stop    string     `json:"stop,omitempty"`    // why the turn must stop: "stop", "halt"
	Pulled  bool       `json:"pulled,omitempty"`  // taken by `inbox next`, and not owned by a process of ours

	// Lingers is set in an idle head while the process of the last attempt, TurnID and Epoch, still
	// runs after its answer. That turn takes no more writes, and no turn starts before the process
	// has ended.
	Lingers bool `json:"lingers,omitempty"`

	// Submitted is the deliverable that `submit` has set, a file in Box. A turn that dies later is
	// closed with it.
	Submitted    string `json:"submitted,omitempty"`
	SubmittedSum string `json:"submitted_sha256,omitempty"` // of that file

	// Box is the output box of the last attempt, which a resumed attempt keeps.
	// Resumed is set in such an attempt.
	Box     string `json:"box,omitempty"`
	Resumed bool   `json:"resumed,omitempty"`

	// With are the keys of the sender's other messages that the turn answers as well, oldest first.
	// Key is the newest.
	With []string `json:"with,omitempty"`

	// Finish is set when the turn must end with its submitted deliverable, or with its last words,
	// even if it still waits for reports.
	Finish bool `json:"finish,omitempty"`

	// Waiting are the questions whose answers the turn has not received yet. Outside work and
	// questions to the operator stay there until the turn ends. ResumeBy is the latest deadline of
	// the open ones. Patience is from an older version, in which all of them had the deadline
	// ResumeBy.
	Waiting  []Wait        `json:"waiting,omitempty"`
	Given    []Wait        `json:"given,omitempty"` // whose answers this attempt received
	ResumeBy time.Time     `json:"resume_by,omitzero"`
	Patience time.Duration `json:"patience,omitempty"`
}

func (h Head) clone() Head {
	h.Waiting, h.With, h.Given = slices.Clone(h.Waiting), slices.Clone(h.With), slices.Clone(h.Given)
	return h
}

// Wait is one question to another agent or to the operator, or outside work of the turn. It is
// answered once: by a report, or by the words "timeout" or "timeout: superseded".
type Wait struct {
	ID     string    `json:"tool_call_id"`
	To     string    `json:"to"`             // a handle; "tool deploy" or "submit" if Outside
	Text   string    `json:"text,omitempty"` // the beginning of the question
	Asked  time.Time `json:"asked"`
	Report string    `json:"report,omitempty"` // payload of the report
	Missed string    `json:"missed,omitempty"` // why the report is missing

	// By is when the question is answered by "timeout", if the turn is suspended then. It is at
	// most Span ahead.
	By   time.Time     `json:"by,omitzero"`
	Span time.Duration `json:"span,omitempty"`

	// Outside is set for outside work. Its report comes from a program or a person, by the id
	// alone, or from one of Peers. Words is a file in the attempt's folder with the turn's own
	// description. Handed is set once an attempt received the answer.
	Outside  bool     `json:"outside,omitempty"`
	Peers    []string `json:"peers,omitempty"`
	Words    string   `json:"words,omitempty"`
	WordsSum string   `json:"words_sha256,omitempty"`
	Handed   bool     `json:"handed,omitempty"`

	// Operator is set if the question goes to the operator, by mail: To is the address, and Options
	// are the answers that the question offers. Told is set once they were told that a message of
	// theirs waits behind it.
	Operator bool     `json:"operator,omitempty"`
	Options  []string `json:"options,omitempty"`
	Told     bool     `json:"told,omitempty"`

	// Permit identifies the tool call that the operator is asked to permit; "" for any other
	// question. Used is set once the permission was used.
	Permit string `json:"permit,omitempty"`
	Used   bool   `json:"used,omitempty"`

	// Sum is the SHA-256 of the report's payload, in hexadecimal.
	Sum string `json:"sha256,omitempty"`

	// Status is the outcome of the other agent's turn, as its report gives it. It is Timeout if the
	// report is missing, and "" if an older agent reported.
	Status Outcome `json:"status,omitempty"`
}

// Answered reports whether the question is closed.
func (w Wait) Answered() bool { return w.Report != "" || w.Missed != "" }

// asksPermission reports whether the operator still has to decide on a tool call.
func (w Wait) asksPermission() bool { return w.Permit != "" && !w.Answered() }

// AsksPermission reports whether the turn waits for a permission.
func (h Head) AsksPermission() bool {
	return slices.ContainsFunc(h.Waiting, Wait.asksPermission)
}

// outlivesAttempt reports whether the turn keeps the wait until it ends, through all its attempts,
// so that a question is not asked twice and work is not started twice.
func (w Wait) outlivesAttempt() bool { return w.Outside || w.Operator }

// handAnswers records that an attempt has received all answers so far.
func (h *Head) handAnswers() {
	h.Given = nil
	for _, w := range h.Waiting {
		if w.Answered() && !w.Handed {
			h.Given = append(h.Given, w)
		}
	}
	h.Waiting = slices.DeleteFunc(h.Waiting, func(w Wait) bool { return w.Answered() && !w.outlivesAttempt() })
	for i, w := range h.Waiting {
		h.Waiting[i].Handed = w.Answered()
	}
}

// takeBackAnswers undoes handAnswers for an attempt that could not use the answers.
func (h *Head) takeBackAnswers() {
	given := h.Given
	h.Given = nil
	for i, w := range h.Waiting {
		if again := slices.IndexFunc(given, func(g Wait) bool { return g.ID == w.ID }); again >= 0 {
			h.Waiting[i].Handed = false
			given = slices.Delete(slices.Clone(given), again, again+1)
		}
	}
	h.Waiting = slices.Concat(given, h.Waiting)
}

// Waits reports whether the turn waits for an answer, or has an answer that no attempt received
// yet.
func (h Head) Waits() bool {
	return slices.ContainsFunc(h.Waiting, func(w Wait) bool { return !w.Handed })
}

// ready reports whether a suspended turn has no open question.
func (h Head) ready() bool { return h.Status == HeadSuspended && !h.open() }

// open reports whether a suspended turn has an open question.
func (h Head) open() bool {
	return h.Status == HeadSuspended && slices.ContainsFunc(h.Waiting, func(w Wait) bool { return !w.Answered() })
}

// NextDeadline returns when the next open question of a suspended turn is answered by "timeout". ok
// is false without an open question.
func (h Head) NextDeadline() (at time.Time, ok bool) {
	if h.Status != HeadSuspended {
		return time.Time{}, false
	}
	for _, w := range h.Waiting {
		if !w.Answered() && (!ok || w.By.Before(at)) {
			at, ok = w.By, true
		}
	}
	return at, ok
}

// lastDeadline returns the latest deadline of the open questions, or the zero time.
func (h Head) lastDeadline() (at time.Time) {
	for _, w := range h.Waiting {
		if !w.Answered() {
			at = latest(at, w.By)
		}
	}
	return at
}

// Owns reports whether (turnID, epoch) may still write for the turn.
func (h Head) Owns(turnID string, epoch uint64) bool {
	return h.Status != HeadIdle && h.TurnID == turnID && h.Epoch == epoch
}

// applyHead restores the turn head, and the row of its message, after a step. The last line of that
// step has both.
func (m *machine) applyHead(l Line) {
	if l.Head == nil {
		return
	}
	m.Turn = *l.Head
	m.Epoch = max(m.Epoch, l.Head.Epoch)
	if l.Row == nil {
		return
	}
	m.Epoch = max(m.Epoch, l.Row.Epoch)
	if row := m.message(l.Row.Key); row != nil {
		*row = *l.Row
		m.followLead(*row)
	}
}
