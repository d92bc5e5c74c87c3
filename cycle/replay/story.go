package replay

import (
	"cmp"
	"slices"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/internal/order"
	"agentstateloop/state"
)

// Kind names the event of an entry.
type Kind string

// The kinds of entries. The mails of the agent follow the kinds of the machine.
const (
	MailIn   Kind = "mail"     // a mail came for the agent
	Copy     Kind = "copy"     // it is a copy of an earlier one
	Waits    Kind = "waits"    // a message waits, for the reason of the entry
	Control  Kind = "control"  // a mail was STOP, HALT, GO or STATUS
	Phase    Kind = "phase"    // the phase changed
	Prompt   Kind = "prompt"   // a scheduled prompt came due
	Turn     Kind = "turn"     // a turn began
	Stopped  Kind = "stopped"  // a turn was stopped
	Tier     Kind = "tier"     // the budget tier changed
	Polls    Kind = "polls"    // polls without news
	MailOut  Kind = "sent"     // a mail to the operator: an ack, a quiet, a notice
	Answered Kind = "answered" // the answer of a turn
)

// Entry is one event of a replay.
type Entry struct {
	At    time.Time
	Phase state.Phase // of the agent, after the event
	Kind  Kind

	File, From, Subject string           // of a mail; the subject also of a turn and its answer
	Mail                state.EffectKind // of a mail to the operator
	Text                string           // of a mail to the operator, of a control, of a tier
	Gate, Reason        string
	Count               int           // of polls; of the other messages that a turn answers
	Waited              time.Duration // from the mail to its answer
	Cost                state.Micros  // of a turn
	Until               time.Time     // of a message that waits
}

// story collects the entries and the summary of a replay. It reads the lines that the machine
// records.
type story struct {
	emit func(Entry) error                               // nil: only the summary is wanted
	text func(state.State, state.Effect) (string, error) // of a mail of ours

	sum   Summary
	waits []time.Duration

	mails   map[string]decided // of the messages in the inbox, by key
	fresh   []string           // keys of the mails of this poll that have no history line yet
	replies map[string]reply   // that have not left, by id

	held  []*Entry // not shown yet, because a mail may have come before them
	shown time.Time
	news  bool         // since the poll began
	cost  state.Micros // of the turn that ends in this step
}

// reply is the answer of a turn.
type reply struct {
	to   []state.Message
	cost state.Micros
}

// beginPoll notes a poll, and the mails that have come since the one before. It shows the entries up
// to now.
func (st *story) beginPoll(phase state.Phase, taken []decided) error {
	st.sum.Polls++
	st.news = false
	for _, d := range taken {
		st.take(d, phase)
	}
	order.Stable(st.held, func(a, b *Entry) int { return a.At.Compare(b.At) })
	n := len(st.held)
	if n > 0 && st.held[n-1].Kind == Polls {
		n-- // its number may rise
	}
	return st.show(n)
}

// show shows the first n of the held entries.
func (st *story) show(n int) error {
	for _, e := range st.held[:n] {
		st.shown = e.At
		if st.emit == nil {
			continue
		}
		if err := st.emit(*e); err != nil {
			return err
		}
	}
	st.held = append(st.held[:0], st.held[n:]...)
	return nil
}

// take notes a mail that a poll has read.
func (st *story) take(d decided, phase state.Phase) {
	switch {
	case d.unproven != nil:
		st.sum.Undecided++
	case !d.mine:
		st.sum.Others++
		return
	}
	st.news = true
	if d.unproven != nil {
		d.reason = d.unproven.Error()
	} else {
		st.mails[d.key] = d
		st.fresh = append(st.fresh, d.key)
	}
	st.held = append(st.held, &Entry{
		At: view.Later(d.At, st.shown), Phase: phase, Kind: MailIn,
		File: d.Name, From: d.from, Subject: d.subject, Gate: d.gate, Reason: d.reason,
	})
}

// tookCopies notes that the machine knew the other mails of a poll.
func (st *story) tookCopies(s *state.State) {
	for _, key := range st.fresh {
		st.sum.Copies++
		st.note(s, Entry{Kind: Copy, File: st.mails[key].Name, Subject: st.mails[key].subject})
		delete(st.mails, key)
	}
	st.fresh = st.fresh[:0]
}

// endPoll counts a poll without news.
func (st *story) endPoll(now time.Time, phase state.Phase) {
	if st.news {
		return
	}
	if n := len(st.held); n > 0 && st.held[n-1].Kind == Polls && st.held[n-1].Phase == phase {
		st.held[n-1].Count++
		return
	}
	st.held = append(st.held, &Entry{At: now, Phase: phase, Kind: Polls, Count: 1})
}

// note adds an entry.
func (st *story) note(s *state.State, e Entry) {
	st.news = true
	e.At, e.Phase = s.LastStep, cmp.Or(e.Phase, s.Phase)
	st.held = append(st.held, &e)
}

// pass counts the time in a phase.
func (st *story) pass(phase state.Phase, d time.Duration) { st.sum.Phases[phase] += d }

// tell notes the history lines of a step.
func (st *story) tell(s *state.State) {
	st.cost = 0
	for _, l := range s.Lines {
		st.line(s, l)
	}
}

// line notes a history line.
func (st *story) line(s *state.State, l state.Line) {
	switch l.Kind {
	case state.LineTransition:
		st.note(s, Entry{Phase: l.New, Kind: Phase, Text: string(l.Old), Reason: l.Reason})
	case state.LineMessage:
		st.message(s, *l.Message)
	case state.LineGate:
		if l.What == state.WordCopy {
			return // tookCopies counts it
		}
		st.sum.setAside(l, st.mails[l.Key].Stored)
		st.done(l.Key)
	case state.LineControl:
		st.sum.Controls++
		st.note(s, Entry{Kind: Control, File: st.mails[l.Key].Name, Text: string(l.What)})
		st.done(l.Key)
	case state.LineTurn:
		if l.What == state.WordRunning {
			st.sum.Turns++
			st.note(s, Entry{Kind: Turn, Subject: st.mails[l.Key].subject, Count: len(s.Turn.With)})
		}
	case state.LineSpend:
		st.cost += l.Spending.Cost
		st.sum.spend(l.Day, l.Spending.Cost)
	case state.LineTask:
		st.task(s, l)
	case state.LineTier:
		st.note(s, Entry{Kind: Tier, Text: string(l.What), Reason: l.Reason})
	case state.LinePrompt:
		if l.What == state.WordSkipped {
			st.sum.PromptsLeft++
		}
	}
}

// done forgets a mail that is not in the inbox.
func (st *story) done(key string) {
	delete(st.mails, key)
	st.recorded(key)
}

// recorded notes that the machine has recorded something about a mail.
func (st *story) recorded(key string) {
	st.fresh = slices.DeleteFunc(st.fresh, func(k string) bool { return k == key })
}

// message notes a message that came into the inbox.
func (st *story) message(s *state.State, msg state.Message) {
	st.recorded(msg.Key)
	if msg.Source == state.Clock {
		st.sum.Prompts++
		st.mails[msg.Key] = decided{subject: msg.From}
		st.note(s, Entry{Kind: Prompt, Subject: msg.From})
		return
	}
	st.sum.Messages++
	if msg.Status == state.Deferred {
		st.sum.Deferred++
		d := st.mails[msg.Key]
		st.note(s, Entry{Kind: Waits, File: d.Name, Subject: d.subject, Reason: msg.Reason, Until: msg.NextRetryAt})
	}
}

// task notes the end of a turn. Its messages are answered when the reply leaves.
func (st *story) task(s *state.State, l state.Line) {
	rows := slices.Clone(l.Collected)
	if l.Row != nil {
		rows = append(rows, *l.Row)
	}
	st.replies["reply."+l.TurnID] = reply{rows, st.cost}
	if l.Outcome == state.Canceled {
		st.sum.Stopped++
		st.note(s, Entry{Kind: Stopped, Subject: st.mails[l.Key].subject})
	}
}

// sent notes a mail of ours that leaves.
func (st *story) sent(s *state.State, e state.Effect) error {
	if e.Kind == state.Reply {
		st.answered(s, e)
		return nil
	}
	text, err := st.text(*s, e)
	if err != nil {
		return err
	}
	st.sum.Sent[e.Kind]++
	st.note(s, Entry{Kind: MailOut, Mail: e.Kind, Text: text})
	return nil
}

// answered notes the answer of a turn that leaves.
func (st *story) answered(s *state.State, e state.Effect) {
	r := st.replies[e.ID]
	delete(st.replies, e.ID)
	st.sum.Answers++
	answer := Entry{Kind: Answered, Count: max(0, len(r.to)-1), Cost: r.cost}
	for _, msg := range r.to {
		answer.Subject = st.mails[msg.Key].subject
		delete(st.mails, msg.Key)
		if msg.Source != state.Mail {
			continue
		}
		wait := s.LastStep.Sub(msg.At)
		answer.Waited = max(answer.Waited, wait)
		st.waits = append(st.waits, wait)
	}
	st.note(s, answer)
}

// end completes the summary, and shows the last entries.
func (st *story) end(s *state.State, now time.Time) error {
	st.sum.Ended, st.sum.Phase = now, s.Phase
	for _, msg := range s.Inbox {
		if msg.Source == state.Mail {
			st.sum.Unanswered++
		}
	}
	st.sum.Wait = waitsOf(st.waits)
	return st.show(len(st.held))
}
