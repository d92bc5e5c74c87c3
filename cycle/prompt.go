package cycle

import (
	"fmt"
	"strings"
	"time"

	"agentstateloop/state"
)

// prompt is what the agent reads on stdin: who it is, who wrote, and the
// message, fenced as data.
func (a *Agent) prompt(w work) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "You are @%s. Answer the message below; what you print is sent back to its sender.\n\n", a.Handle)
	fmt.Fprintf(&b, "Source: %s\nFrom: %s (%s)\n", w.msg.Source, w.msg.From, standing(w.msg))
	if w.subject != "" {
		fmt.Fprintf(&b, "Subject: %s\n", w.subject)
	}
	fmt.Fprintf(&b, "Received: %s\n", w.msg.At.UTC().Format(time.RFC3339))
	if w.msg.Note != "" {
		fmt.Fprintf(&b, "Note: %s\n", w.msg.Note)
	}
	fmt.Fprintf(&b, "\n%s\n", fence(w.text))
	return []byte(b.String())
}

// standing says what the sender is to the agent.
func standing(m state.Message) string {
	if m.Operator {
		return "your operator"
	}
	return "another agent, not your operator"
}

// fence marks a text as data, and keeps it from closing the fence itself.
func fence(text string) string {
	text = strings.ReplaceAll(text, "</message>", "<\\/message>")
	return "<message>\n" + strings.TrimRight(text, "\n") + "\n</message>"
}
