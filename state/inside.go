package state

import (
	"time"
)

// notUnderWay reports whether the attempt (turnID, epoch) is over: its turn has ended, or was
// suspended when the attempt ended. Later events of that process are rejected like a stale write.
// For example, the resumed turn would forget a deliverable that was submitted while it was
// suspended.
func (m *machine) notUnderWay(turnID string, epoch uint64, what string) bool {
	if m.stale(turnID, epoch, what) {
		return true
	}
	if m.Turn.Status != HeadSuspended {
		return false
	}
	m.line(Line{Kind: LineTurn, TurnID: turnID, Epoch: epoch, What: WordStale, Reason: what + " after its attempt"})
	return true
}

// Submitted reports that the agent, from inside its turn, has set the
// deliverable: a file in the folder of its attempt.
type Submitted struct {
	TurnID, Deliverable string
	Epoch               uint64
	Sum                 string // of the file
	Finish              bool   // end the turn at once
}

func (e Submitted) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "submitted") || m.Turn.Submitted != "" {
		return
	}
	m.Turn.Submitted, m.Turn.SubmittedSum = e.Deliverable, e.Sum
	m.Turn.Finish = m.Turn.Finish || e.Finish
	m.turnLine(WordSubmitted, e.Deliverable)
}

// Posted reports that the agent, from inside its turn, sends a message that needs no report.
type Posted struct {
	TurnID string
	Epoch  uint64
	Effect Effect
}

func (e Posted) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "posted") {
		return
	}
	m.queue(e.Effect)
	post := m.Outbox[len(m.Outbox)-1]
	m.line(Line{Kind: LineEdge, What: WordEnqueue, Request: post.ID, From: m.Agent, To: post.To, TurnID: e.TurnID})
}

// Redacted implements [Redactable].
func (e Posted) Redacted(redact func(string) string) Event {
	e.Effect = e.Effect.redacted(redact)
	return e
}

// MaxSleep and MaxPatience bound the requests of an agent. DefaultPatience is how long a turn waits
// for a report if the agent gives no time (docs/design.md, "Suspension").
const (
	MaxSleep        = 24 * time.Hour
	MaxPatience     = 24 * time.Hour
	DefaultPatience = 10 * time.Minute

	// DefaultDeadline is how long a turn waits for outside work.
	DefaultDeadline = time.Hour
)

// Slept reports that the agent asks to be left alone for a while, without a reason to wake. A sleep
// with a reason is Planned.
type Slept struct {
	TurnID string
	Epoch  uint64
	For    time.Duration
}

// apply keeps the agent's request. Any message or nudge ends the sleep.
func (e Slept) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "slept") {
		return
	}
	m.replaceSleeps(m.TurnPrincipal())
	m.SleepFor = min(e.For, MaxSleep)
	m.SleepUntil = m.now.Add(m.SleepFor)
	m.line(Line{Kind: LineSleep, What: WordAsked, TurnID: e.TurnID, Reason: "until " + m.SleepUntil.Format(time.RFC3339)})
}

// Remembered reports that the agent, from inside its turn, replaces its working memory about the
// principal that the turn answers.
type Remembered struct {
	TurnID string
	Epoch  uint64
	Text   string
}

// apply records the new working memory. A turn that began before a reset may not change it, because
// it knows things that the agent must forget.
func (e Remembered) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "remembered") {
		return
	}
	if e.Epoch <= m.Reset.Epoch {
		m.line(Line{Kind: LineTurn, TurnID: e.TurnID, Epoch: e.Epoch, What: WordStale, Reason: "remembered after a reset"})
		return
	}
	m.line(Line{Kind: LineMemory, With: m.TurnPrincipal(), TurnID: e.TurnID, Epoch: e.Epoch, Text: e.Text})
}

// Redacted implements [Redactable].
func (e Remembered) Redacted(redact func(string) string) Event {
	e.Text = redact(e.Text)
	return e
}

// AgentEnded reports that the process of an agent that lingered after its answer
// has ended.
type AgentEnded struct {
	TurnID string
	Epoch  uint64
	Reason string // how it ended
}

// apply frees the head for the next turn.
func (e AgentEnded) apply(m *machine) {
	if !m.Turn.LingersAt(e.TurnID, e.Epoch) {
		return
	}
	m.turnLine(WordExited, e.Reason)
	m.Turn = Head{Status: HeadIdle}
}

// Redacted implements [Redactable].
func (e AgentEnded) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// LingersAt reports whether the process of this attempt still runs after its answer, as far as the
// state knows.
func (h Head) LingersAt(turnID string, epoch uint64) bool {
	return h.Lingering() && h.TurnID == turnID && h.Epoch == epoch
}

// Lingering reports whether the last agent may still run after its answer.
func (h Head) Lingering() bool { return h.Status == HeadIdle && h.Lingers }

// InAttempt reports whether an attempt of the turn is under way.
func (h Head) InAttempt() bool { return h.Status == HeadDispatched || h.Status == HeadRunning }

// NeedsRunner reports whether the turn should have a living runner: during an attempt, and while the
// agent stays on after its answer.
func (h Head) NeedsRunner() bool { return h.InAttempt() || h.Lingering() }

// Stoppable reports whether there is a turn or an agent to stop.
func (h Head) Stoppable() bool { return h.Status != HeadIdle || h.Lingers }
