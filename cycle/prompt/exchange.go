package prompt

import (
	"fmt"
	"strings"

	"agentstateloop/internal/plain"
)

// Exchange is one message with its answer.
type Exchange struct{ Asked, Answered Said }

// Said is a text of an exchange, with the line that says whose it is and when they
// wrote it.
type Said struct{ Head, Text string }

// Plain returns an exchange as a person reads it.
func (e Exchange) Plain() string {
	return e.Asked.Head + ":\n" + e.Asked.Text + "\n\n" + e.Answered.Head + ":\n" + e.Answered.Text + "\n"
}

// Past is an exchange that prompts may hold. What they need of it is worked out once:
// in a backlog, one prompt after the other holds the same exchanges.
type Past struct {
	plain           string
	asked, answered Said // defused, but for the boundary, which is another one in each prompt
}

// NewPast returns the exchange for prompts.
func NewPast(e Exchange) *Past {
	return &Past{plain: e.Plain(), asked: e.Asked.defused(), answered: e.Answered.defused()}
}

func (s Said) defused() Said {
	return Said{Head: breakTags(plain.Line(s.Head)), Text: breakTags(s.Text)}
}

// Len returns the length in bytes of the exchange as a person reads it.
func (p *Past) Len() int { return len(p.plain) }

// fencing is how many bytes the tags of an exchange take, about.
const fencing = 120

// size returns how many bytes of a prompt's room an exchange takes.
func (p *Past) size() int { return len(p.plain) + 1 + fencing }

// Recalled is an exchange that a prompt holds.
type Recalled struct {
	*Past
	Skipped int // exchanges between the one before it and it that are left out
}

// Exchange returns an exchange with each of its texts fenced.
func (f Fences) Exchange(e Exchange) string {
	var b strings.Builder
	f.writePast(&b, NewPast(e))
	return b.String()
}

// Exchanges returns what was said before: each text fenced, and all of it in one
// fence. It returns "" for no exchanges.
func (f Fences) Exchanges(all []Recalled) string {
	if len(all) == 0 {
		return ""
	}
	size := 0
	for _, r := range all {
		size += r.size()
	}
	var b strings.Builder
	b.Grow(size)
	for i, r := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		if r.Skipped > 0 {
			fmt.Fprintf(&b, "(%d left out)\n\n", r.Skipped)
		}
		f.writePast(&b, r.Past)
	}
	return f.enclose(tagHistory, "", b.String())
}

func (f Fences) writePast(b *strings.Builder, p *Past) {
	f.writeSaid(b, tagAsked, p.asked)
	b.WriteByte('\n')
	f.writeSaid(b, tagAnswered, p.answered)
}

func (f Fences) writeSaid(b *strings.Builder, tag string, s Said) {
	b.WriteString(f.breakBoundary(s.Head))
	b.WriteString(":\n")
	b.WriteString(f.enclose(tag, "", f.breakBoundary(s.Text)))
	b.WriteByte('\n')
}
