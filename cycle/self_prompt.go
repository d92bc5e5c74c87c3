package cycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"agentstateloop/cycle/prompt"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// The limits for the prompt of a wakeup: bytes of history that are read, and lines that the
// prompt shows.
const (
	meanwhileRead = 1 << 20
	meanwhileMost = 20
)

// wokenBy returns the reason why a wakeup ended its wait.
func wokenBy(m state.Message) string {
	switch {
	case m.Kind == state.KindReminder && m.MadeBy == "":
		return "a reminder that your operator set for you"
	case m.Kind == state.KindReminder:
		return "a reminder that you set"
	case m.Kind == state.KindRest && m.Early:
		return "your rest after an answer ended early"
	case m.Kind == state.KindRest:
		return "your rest after an answer is over"
	case m.Early:
		return "your sleep ended early"
	}
	return "your sleep is over"
}

// wake adds the template data of a turn that the agent caused itself: why it woke, its earlier
// words, unless a reset has ended the memory of them, and the messages that came meanwhile. The
// rest of d is complete.
func (p *prompter) wake(d *prompt.Data, fences prompt.Fences, m turnMessage) {
	if m.msg.Source != state.Self {
		d.EndedSleep = fences.Line(m.endedSleep())
		p.clock(d, m.msg)
		return
	}
	d.Woken = wokenBy(m.msg)
	d.Mailed = m.msg.Operator && p.policy.HasMail
	if d.Wake == "message" {
		d.Wake = "self"
	}
	if m.msg.Said != "" && !d.BeforeReset {
		answer := "(no longer stored)"
		if text, err := p.store.ReadFile(m.msg.Said, store.MaxPayload); err == nil {
			answer = truncate(string(text), recallPart)
		}
		d.SaidBefore = fences.AgentOutput(answer)
	}
	d.Came, d.Meanwhile = p.meanwhile(fences, m.msg)
}

// clock adds the template data of a turn that a clock prompt has caused.
func (p *prompter) clock(d *prompt.Data, m state.Message) {
	if m.Source != state.Clock {
		return
	}
	d.Due = m.At.In(cmp.Or(p.policy.Location, time.UTC)).Format(dateAndTime)
	d.Mailed = p.policy.HasMail && m.MayBeSilent()
	d.ToOperator = p.policy.HasMail && !d.Mailed
	if d.Wake == "message" {
		d.Wake = "clock"
	}
}

// endedSleep returns the beginning of the text of the wakeup that the messages of this turn
// have replaced.
func (m turnMessage) endedSleep() string {
	for _, other := range m.others { // the first of them has ended it
		if other.msg.EndedSleep != "" {
			return other.msg.EndedSleep
		}
	}
	return m.msg.EndedSleep
}

// meanwhile returns in words how many messages and nudges came since a row was made, and the
// newest of them, one per line. A row of another agent's conversation counts only those from
// that agent.
func (p *prompter) meanwhile(fences prompt.Fences, row state.Message) (counted string, lines []string) {
	messages, nudges := 0, 0
	for l, err := range p.store.Newest(meanwhileRead, state.LineMessage, state.LineNudge) {
		if err != nil {
			p.logf("prompt: the messages since then are left out: %v", err)
			break
		}
		if l.Key == row.Key {
			break // older lines came before it
		}
		if l.Source == state.Self || l.Source == state.Clock || !row.Operator && !isFrom(row, l) {
			continue
		}
		what := "nudge"
		if l.Kind == state.LineMessage {
			what = "message"
			messages++
		} else {
			nudges++
		}
		if len(lines) < meanwhileMost {
			lines = append(lines, fences.Line(cameLine(what, l)))
		}
	}
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	var counts []string
	for _, c := range []struct {
		n    int
		noun string
	}{{messages, "message"}, {nudges, "nudge"}} {
		switch {
		case c.n == 1:
			counts = append(counts, "1 "+c.noun)
		case c.n > 1:
			counts = append(counts, fmt.Sprintf("%d %ss", c.n, c.noun))
		}
	}
	return strings.Join(counts, " and "), lines
}

// isFrom reports whether the message or nudge of a line came from the agent of a row.
func isFrom(row state.Message, l state.Line) bool {
	if l.Message != nil {
		return l.Message.Principal() == row.Principal()
	}
	return l.Source == state.Mesh && l.From == row.From && row.Proof == state.ByToken
}

// cameLine describes a message or a nudge that came.
func cameLine(what string, l state.Line) string {
	text := fmt.Sprintf("[%s] %s", l.At.UTC().Format("2006-01-02 15:04"), what)
	if l.From != "" {
		text += " from " + plain.Line(l.From)
	}
	if l.Source != "" && l.Kind == state.LineMessage {
		text += " (" + string(l.Source) + ")"
	}
	if l.Kind == state.LineNudge && l.Reason != "" {
		text += ": " + plain.Shorten(plain.Line(l.Reason), 200)
	}
	return text
}

// hasNoNews reports whether the answer to a wakeup has no news for the operator: it is empty, or
// the one word NOTHING.
func hasNoNews(text string) bool {
	word := strings.TrimSuffix(strings.TrimSpace(text), ".")
	return word == "" || strings.EqualFold(word, "NOTHING")
}
