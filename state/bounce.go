package state

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A mail of ours may come back after its server has taken it (docs/protocol.md, "Our
// mail").

const (
	maxLost = 100                 // rows; the oldest goes first
	lostFor = 90 * 24 * time.Hour // how long a row stays
	maxTold = 5                   // ids that one notice names
)

// Returned is a mail of ours that did not arrive. Its server had taken it, and then a delivery
// report came.
type Returned struct {
	ID     string    `json:"id"`               // of the effect, "reply.<turn_id>"
	To     string    `json:"to,omitempty"`     // as far as the report names it
	Number uint64    `json:"number,omitempty"` // short, for people; 0 in rows of older versions
	At     time.Time `json:"at"`               // when the report was read
	Reason string    `json:"reason,omitempty"` // as the report gives it
	Told   time.Time `json:"told,omitzero"`    // when a notice about it was made
}

// isNoticed reports whether the operator is told about the loss. They are not told about a lost
// notice or ack, because a notice about it could be lost too, and cause the next one.
func (r Returned) isNoticed() bool {
	kind, _, _ := strings.Cut(r.ID, ".")
	return slices.Contains([]EffectKind{Reply, Answer, Relayed, Post, OperatorQuestion}, EffectKind(kind))
}

// Bounced reports that a delivery report about a mail of ours has come. The MAC in the Message-ID
// proves that the mail is ours.
type Bounced struct {
	Key     string // of the report in the mailbox
	UID     uint32 // of the report, to be marked \Seen
	ID      string // of the effect
	To      string
	Reason  string
	Delayed bool // its server keeps trying
}

// apply records the loss once for each mail. It wakes nothing and causes no turn and no answer.
func (e Bounced) apply(m *machine) {
	m.acknowledgeLater(e.UID, "")
	if m.seen(bounceKey(e.Key)) {
		return
	}
	m.noteSeen(bounceKey(e.Key))
	l := Line{Kind: LineBounce, What: WordLost, Key: e.Key, Source: Mail, ID: e.ID, To: e.To, Reason: e.Reason}
	switch {
	case e.Delayed:
		l.What = WordDelayed
	case m.isLost(e.ID):
		return
	default:
		l.Number = m.Numbers.Effects + 1
	}
	m.line(l)
	l.At = m.now
	m.applyBounceLine(l)
	if i, waits := m.effectIndex(e.ID); waits && !e.Delayed && m.Outbox[i].Copies > 0 {
		m.endEffect(i, WordLost, e.Reason) // the copy with the unknown fate
	}
}

// Redacted implements [Redactable].
func (e Bounced) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// bounceKey returns the key of a delivery report in Seen. It blocks no message.
func bounceKey(key string) string { return "bounce " + key }

// lostKey returns the key of a lost mail in Seen.
func lostKey(id string) string { return "lost " + id }

func (m *machine) isLost(id string) bool {
	return m.seen(lostKey(id)) || slices.ContainsFunc(m.Lost, func(r Returned) bool { return r.ID == id })
}

// applyBounceLine adds a lost mail, or marks the lost mails as told.
func (m *machine) applyBounceLine(l Line) {
	m.noteSeen(bounceKey(l.Key))
	m.Numbers.Effects = max(m.Numbers.Effects, l.Number)
	switch l.What {
	case WordTold:
		for i := range m.Lost {
			if m.Lost[i].Told.IsZero() && m.Lost[i].isNoticed() {
				m.Lost[i].Told = l.At
			}
		}
	case WordLost:
		if m.isLost(l.ID) {
			return
		}
		m.noteSeen(lostKey(l.ID))
		m.noteReplyEnded(l.ID, WordLost, l.At)
		m.Lost = append(m.Lost, Returned{ID: l.ID, To: l.To, Number: l.Number, At: l.At, Reason: l.Reason})
		m.Lost = m.Lost[max(0, len(m.Lost)-maxLost):]
	}
}

// forgetLost removes the mails lost long ago.
func (m *machine) forgetLost() {
	m.Lost = slices.DeleteFunc(m.Lost, func(r Returned) bool { return m.now.Sub(r.At) > lostFor })
}

// tellLost tells the operator about lost mails through another channel than the one that failed.
// Without another channel, the operator hears of it by mail when they write again.
func (m *machine) tellLost() {
	var ids, tried []string
	var last Returned
	for _, r := range m.Lost {
		if !r.Told.IsZero() || !r.isNoticed() {
			continue
		}
		ids, last = append(ids, r.ID), r
		if slices.Contains(m.policy.Others, r.To) {
			tried = append(tried, r.To)
		} else {
			tried = append(tried, m.policy.Operator)
		}
	}
	if len(ids) == 0 || m.lossesTold() >= mailsAnHour || !m.policy.Notices {
		return
	}
	notice := Effect{Text: lossText(ids, last), Thread: m.subject("undelivered"), Tried: tried}
	if m.heardFrom != "" {
		notice.Kind, notice.Channel, notice.To, notice.Tried = Notice, ByMail, m.heardFrom, nil
		m.queue(notice)
	} else if m.tellOperator(notice) == "" {
		return
	}
	l := Line{Kind: LineBounce, What: WordTold, Count: len(ids)}
	m.line(l)
	l.At = m.now
	m.applyBounceLine(l)
}

// lossesTold returns how many notices about losses were made within the hour. Anybody who has old
// mails of ours can forge a report about each.
func (m *machine) lossesTold() int {
	told := map[time.Time]bool{}
	for _, r := range m.Lost {
		if m.now.Sub(r.Told) < time.Hour {
			told[r.Told] = true
		}
	}
	return len(told)
}

// lossText returns the text of a notice about lost mails.
func lossText(ids []string, last Returned) string {
	if len(ids) == 1 {
		text := fmt.Sprintf("My mail %s to %s came back undelivered: %s.", last.ID, last.To, last.Reason)
		if turn, ok := strings.CutPrefix(last.ID, string(Reply)+"."); ok {
			text += " Its text is kept in turns/" + turn + " of my state directory."
		}
		return text
	}
	named := strings.Join(ids[:min(len(ids), maxTold)], ", ")
	if more := len(ids) - maxTold; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d of my mails came back undelivered: %s. The last was to %s: %s. `agentstateloop status` lists them.", len(ids), named, last.To, last.Reason)
}
