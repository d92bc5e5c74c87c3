package cycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// undelivered returns the notice about rows that were given up: the kind, the recipient, the
// server's words and the path of each, but not its text. A peer that passes the notice on does
// not learn subjects or paths.
func (r *renderer) undelivered(s state.State, e state.Effect) string {
	var b strings.Builder
	b.WriteString("I could not deliver what is listed here. It is kept, and is not sent\nagain by itself.\n")
	for _, id := range e.Tells {
		row, kept := s.UndeliveredEffect(id)
		if !kept {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n  what: %s\n", row.ID, describeEffect(row, e.Channel == state.ByMail))
		if row.TurnID != "" {
			fmt.Fprintf(&b, "  turn: %s\n", row.TurnID)
		}
		fmt.Fprintf(&b, "  to:   %s by %s\n  when: %s\n  why:  %s\n", row.To, row.Channel,
			row.GivenUp.UTC().Format(time.RFC3339), plain.Line(cmp.Or(row.Reason, "it waited too long")))
		if e.Channel == state.ByMail {
			fmt.Fprintf(&b, "  kept: %s\n", r.store.Path(row.File))
		}
	}
	b.WriteString("\nOn the agent's machine:\n" +
		"  agentstateloop outbox list       shows all of it\n" +
		"  agentstateloop outbox show ID    shows one, with its text\n" +
		"  agentstateloop outbox retry ID   sends it again as it is\n" +
		"  agentstateloop outbox drop ID    removes it\n")
	return b.String()
}

// describeEffect describes an effect in a few words.
func describeEffect(e state.Effect, withSubject bool) string {
	what := map[state.EffectKind]string{
		state.Reply: "the answer", state.Answer: "the answer to a control", state.Question: "a question", state.OperatorQuestion: "a question to you", state.Post: "a message",
		state.Notice: "a notice", state.Relay: "a notice to pass on", state.Relayed: "a message passed on for a peer",
		state.Alarm: "an alarm", state.Challenge: "the question whether a mail is yours",
	}[e.Kind]
	what = cmp.Or(what, string(e.Kind))
	switch {
	case !withSubject || e.Thread.Subject == "":
		return what
	case e.Kind == state.Reply:
		return fmt.Sprintf("%s to %q", what, plain.Line(e.Thread.Subject))
	}
	return fmt.Sprintf("%s, subject %q", what, plain.Line(e.Thread.Subject))
}
