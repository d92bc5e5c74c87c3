package present

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// OutboxStatus returns the status of a row in words.
func OutboxStatus(r cycle.OutboxRow, now time.Time) string {
	reason := plain.Line(r.Reason)
	switch r.Status {
	case cycle.RowUndelivered:
		return "failed" + since(r.Ended, now) + ": " + cmp.Or(reason, "it waited too long")
	case cycle.RowLost:
		return "was not sent, and was not kept: " + reason
	case cycle.RowReturned:
		return "returned" + since(r.Ended, now) + ": " + cmp.Or(reason, "no reason given")
	case cycle.RowHeld:
		return "held by HALT"
	case cycle.RowSending:
		return "is being sent"
	}
	text := "waits"
	if r.Attempts > 0 {
		text += ", tried " + terminal.Count(r.Attempts, "time")
	}
	if r.NextTry != nil {
		text += ", next try " + terminal.Clock(*r.NextTry, now)
	}
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// since returns the time of an event, formatted to follow a word.
func since(at *time.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return " at " + terminal.Clock(*at, now)
}

// OutboxNumber returns the number of a row, or its id if it has no number.
func OutboxNumber(r cycle.OutboxRow) string {
	if r.Number == nil {
		return plain.Line(r.ID)
	}
	return *r.Number
}

// effectNames are the names of the kinds of effects for a person.
var effectNames = sync.OnceValue(func() map[state.EffectKind]string {
	return map[state.EffectKind]string{
		state.Ack: "awake", state.Quiet: "going quiet", state.Notice: "notice", state.Working: "still working",
		state.Reply: "answer", state.Answer: "answer to a command", state.Question: "question", state.OperatorQuestion: "question to you", state.Post: "message",
		state.Alarm: "alarm", state.Relay: "request to mail you", state.Relayed: "mail for another agent",
		state.Challenge: "did you write this?", state.HookCall: "event",
	}
})

// OutboxSubject returns the kind and the subject of a row.
func OutboxSubject(r cycle.OutboxRow) string {
	kind := r.Kind
	if kind == "" { // of a returned mail, only the id is known
		before, _, _ := strings.Cut(r.ID, ".")
		kind = state.EffectKind(before)
	}
	what := cmp.Or(effectNames()[kind], plain.Line(string(kind)))
	if r.Subject == "" {
		return what
	}
	return what + ": " + plain.Line(r.Subject)
}
