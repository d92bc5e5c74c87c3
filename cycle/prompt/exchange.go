package prompt

import (
	"fmt"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
)

// Exchange is one message and its answer.
type Exchange struct{ Message, Answer ExchangeText }

// ExchangeText is a text of an exchange. Head names its author and time.
type ExchangeText struct{ Head, Text string }

// Plain returns an exchange in the form for a person.
func (e Exchange) Plain() string {
	return e.Message.Head + ":\n" + e.Message.Text + "\n\n" + e.Answer.Head + ":\n" + e.Answer.Text + "\n"
}

// PastExchange is an exchange that is prepared for prompts. It is prepared only once, because in a
// backlog successive prompts contain the same exchanges.
type PastExchange struct {
	plain           string
	message, answer ExchangeText // defused, except for the boundary, which differs in each prompt
}

// NewPastExchange prepares an exchange for prompts.
func NewPastExchange(e Exchange) *PastExchange {
	return &PastExchange{plain: e.Plain(), message: e.Message.defuse(), answer: e.Answer.defuse()}
}

func (s ExchangeText) defuse() ExchangeText {
	return ExchangeText{Head: breakTags(plain.Line(s.Head)), Text: breakTags(s.Text)}
}

// Len returns the length of Exchange.Plain in bytes.
func (p *PastExchange) Len() int { return len(p.plain) }

// tagsSize is the approximate size of an exchange's tags, in bytes.
const tagsSize = 120

// size returns the size of an exchange in a prompt, in bytes.
func (p *PastExchange) size() int { return len(p.plain) + 1 + tagsSize }

// RecalledExchange is an exchange of a prompt.
type RecalledExchange struct {
	*PastExchange
	Skipped int // number of exchanges left out between the previous one and this one
}

// Exchange returns an exchange with each of its texts in a fence.
func (f Fences) Exchange(e Exchange) string {
	var b strings.Builder
	f.writePast(&b, NewPastExchange(e))
	return b.String()
}

// Exchanges returns past exchanges, each text in a fence, and all of them in another. It returns
// "" if all is empty.
func (f Fences) Exchanges(all []RecalledExchange) string {
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
		f.writePast(&b, r.PastExchange)
	}
	return f.enclose(tagHistory, "", b.String())
}

func (f Fences) writePast(b *strings.Builder, p *PastExchange) {
	f.writeText(b, tagAsked, p.message)
	b.WriteByte('\n')
	f.writeText(b, tagAnswered, p.answer)
}

func (f Fences) writeText(b *strings.Builder, tag string, s ExchangeText) {
	b.WriteString(f.breakBoundary(s.Head))
	b.WriteString(":\n")
	b.WriteString(f.enclose(tag, "", f.breakBoundary(s.Text)))
	b.WriteByte('\n')
}

// Recall chooses exchanges for room bytes of a prompt. all is sorted newest first; the result is
// sorted oldest first. The newest exchanges fill half of the room. The exchanges that share the
// most words with the question fill the rest.
func Recall(all []*PastExchange, room int, question ...string) []RecalledExchange {
	rank := NewRanking(question...)
	for i, p := range all {
		rank.Add(i, p.plain)
	}
	return inOrder(all, pick(all, rank.Best(), room))
}

// pick chooses exchanges, sorted newest first, for room bytes: the newest up to half of the
// room, then the best in their order, then the newest again.
func pick(all []*PastExchange, best []int, room int) []bool {
	taken, used := make([]bool, len(all)), 0
	take := func(i, most int) bool {
		size := all[i].size()
		if taken[i] || used+size > most {
			return taken[i]
		}
		taken[i], used = true, used+size
		return true
	}
	for i := range all {
		if !take(i, room/2) {
			break // a conversation with gaps at its end would mislead
		}
	}
	for _, i := range best {
		take(i, room)
	}
	for i := range all {
		take(i, room)
	}
	return taken
}

// inOrder returns the taken exchanges, oldest first. Each has the number of exchanges left out
// before it, except the first.
func inOrder(all []*PastExchange, taken []bool) []RecalledExchange {
	var chosen []RecalledExchange
	gap := 0
	for i, p := range slices.Backward(all) {
		if !taken[i] {
			gap++
			continue
		}
		if len(chosen) == 0 {
			gap = 0
		}
		chosen, gap = append(chosen, RecalledExchange{PastExchange: p, Skipped: gap}), 0
	}
	return chosen
}
