package cycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// undelivered returns the notice about rows that were given up: what each was, to whom,
// the server's words and where it lies, but nothing of what it says. A peer that is
// asked to pass the notice on learns neither subjects nor paths.
func (r renderer) undelivered(s state.State, e state.Effect) string {
	var b strings.Builder
	n := 0
	for _, id := range e.Tells {
		row, kept := s.UndeliveredEffect(id)
		if !kept {
			continue
		}
		n++
		fmt.Fprintf(&b, "\n%s, %s to %s by %s\n  given up %s: %s\n", row.ID, describeEffect(row, e.Channel == state.ByMail), row.To, row.Channel,
			row.GivenUp.UTC().Format(time.RFC3339), plain.Line(cmp.Or(row.Reason, "it waited too long")))
		if e.Channel == state.ByMail {
			fmt.Fprintf(&b, "  kept in %s\n", r.store.Path(row.File))
		}
	}
	what := "a message"
	if n != 1 {
		what = fmt.Sprintf("%d messages", n)
	}
	more := ""
	if left := len(s.Undelivered) - n; left > 0 {
		more = fmt.Sprintf(" There are %d more: `agentstateloop outbox list` shows them all.", left)
	}
	return fmt.Sprintf("I could not deliver %s. What was not delivered is kept, and is not sent again by itself.\n%s\n"+
		"On the agent's machine `agentstateloop outbox show ID` shows one, `agentstateloop outbox retry ID` sends it again as it is, "+
		"and `agentstateloop outbox drop ID` removes it.%s\n", what, b.String(), more)
}

// describeEffect returns what an effect is, in a few words.
func describeEffect(e state.Effect, withSubject bool) string {
	what := map[state.EffectKind]string{
		state.Reply: "the answer", state.Answer: "the answer to a control", state.Question: "a question", state.Post: "a message",
		state.Notice: "a notice", state.Relay: "a notice to pass on", state.Relayed: "a message passed on for a peer",
		state.Alarm: "an alarm", state.Challenge: "the question whether a mail is yours",
	}[e.Kind]
	what = cmp.Or(what, string(e.Kind))
	if withSubject && e.Thread.Subject != "" {
		what += fmt.Sprintf(" to %q", plain.Line(e.Thread.Subject))
		if e.Kind != state.Reply && e.Kind != state.Answer {
			what = strings.Replace(what, " to \"", " about \"", 1)
		}
	}
	if e.TurnID != "" {
		what += " of turn " + e.TurnID
	}
	return what
}
