package prompt

import (
	"fmt"
	"strings"
)

// Exchange is one message with its answer.
type Exchange struct {
	Asked, Answered Said
	Skipped         int // exchanges between the one before it and it that are left out
}

// Said is a text of an exchange, with the line that says whose it is and when they
// wrote it.
type Said struct{ Head, Text string }

// Plain returns an exchange as a person reads it.
func (e Exchange) Plain() string {
	return fmt.Sprintf("%s:\n%s\n\n%s:\n%s\n", e.Asked.Head, e.Asked.Text, e.Answered.Head, e.Answered.Text)
}

// fencing is how many bytes the tags of an exchange take, about.
const fencing = 120

// size returns how many bytes of a prompt's room an exchange takes.
func (e Exchange) size() int { return len(e.Plain()) + 1 + fencing }

// Exchange returns an exchange with each of its texts fenced.
func (f Fences) Exchange(e Exchange) string {
	return fmt.Sprintf("%s:\n%s\n\n%s:\n%s\n", f.Line(e.Asked.Head), f.Fence(tagAsked, e.Asked.Text),
		f.Line(e.Answered.Head), f.Fence(tagAnswered, e.Answered.Text))
}

// Exchanges returns what was said before: each text fenced, and all of it in one
// fence. It returns "" for no exchanges.
func (f Fences) Exchanges(all []Exchange) string {
	if len(all) == 0 {
		return ""
	}
	var parts []string
	for _, e := range all {
		if e.Skipped > 0 {
			parts = append(parts, fmt.Sprintf("(%d left out)\n", e.Skipped))
		}
		parts = append(parts, f.Exchange(e))
	}
	return f.enclose(tagHistory, "", strings.Join(parts, "\n"))
}
