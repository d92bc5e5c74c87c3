package commands

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// standing describes the status of an inbox row in words.
type standing struct {
	state  state.State
	policy state.Policy
	now    time.Time
}

// of returns the status of a row.
func (st standing) of(row view.InboxRow) string {
	switch row.Status {
	case view.RowFetching:
		return "large, is being fetched"
	case view.RowFailing:
		return fmt.Sprintf("cannot be fetched, %s, again at %s%s",
			terminal.Count(row.Tries, "failure"), st.clock(*row.NextRetryAt), because(value(row.Reason)))
	case view.RowQuarantined:
		return "quarantined by gate " + value(row.Gate) + because(value(row.Reason))
	}
	return st.ofMessage(*row.Message)
}

func (st standing) clock(t time.Time) string { return terminal.Clock(t, st.now) }

func (st standing) ofMessage(m state.Message) string {
	switch m.Status {
	case state.Consumed:
		return "its turn is over"
	case state.Errored:
		return "given up"
	case state.Skipped:
		return "ended without a turn"
	}
	if st.state.SharesTurn(m) {
		return st.ofTurn()
	}
	h, held := st.state.HeldBack(m, st.policy, st.now)
	switch {
	case !held && m.Attempts > 0:
		return "waits for another attempt"
	case !held:
		return "waits for its turn"
	case h.Until.IsZero():
		return "waits" + because(plain.Line(h.Why))
	case m.Source == state.Self && m.TurnID == "":
		return ownPlan(m.Kind) + " " + st.clock(h.Until)
	}
	return "waits until " + st.clock(h.Until) + because(plain.Line(h.Why))
}

// ownPlan returns the words for a wakeup that the agent has planned.
func ownPlan(kind string) string {
	switch kind {
	case state.KindSleep:
		return "sleeps until"
	case state.KindRest:
		return "rests until"
	}
	return "reminds itself at"
}

// ofTurn returns the status of the active turn.
func (st standing) ofTurn() string {
	head := st.state.Turn
	switch {
	case head.Status == state.HeadSuspended:
		return st.ofSuspended(head)
	case head.Pulled:
		return "taken by inbox next at " + st.clock(head.Since)
	case head.Status == state.HeadDispatched:
		return "its turn begins"
	case head.Stop != "":
		return "its turn is being stopped"
	}
	return "its turn runs since " + st.clock(head.Since)
}

// ofSuspended describes the open questions of a turn, and the work that it has started.
func (st standing) ofSuspended(head state.Head) string {
	var asked, started, asks []string
	var until time.Time
	for _, w := range head.Waiting {
		switch to := plain.Line(w.To); {
		case w.Answered():
			continue
		case w.Operator:
			asks = append(asks, inQuotes(w.Text)+offered(w.Options))
		case w.Outside && !slices.Contains(started, to):
			started = append(started, to)
		case !w.Outside && !slices.Contains(asked, to):
			asked = append(asked, to)
		}
		if w.By.After(until) {
			until = w.By
		}
	}
	if len(asks) > 0 {
		return "asks you " + strings.Join(asks, " and ") + ", waits until " + st.clock(until)
	}
	if len(asked)+len(started) == 0 {
		return "its turn has what it waited for, and goes on"
	}
	text := "asked " + strings.Join(asked, ", ") + ", waits for the " + answers(len(asked))
	switch {
	case len(asked) == 0:
		text = "waits for " + strings.Join(started, ", ")
	case len(started) > 0:
		text += " and for " + strings.Join(started, ", ")
	}
	return text + " until " + st.clock(until)
}

// offered returns the options of a question in brackets, or "".
func offered(options []string) string {
	if len(options) == 0 {
		return ""
	}
	return " (" + plain.Line(strings.Join(options, ", ")) + ")"
}

func answers(n int) string {
	if n == 1 {
		return "answer"
	}
	return "answers"
}

// whoSent returns the sender of a row, and notes if the name is not proved.
func whoSent(row view.InboxRow) string {
	from := plain.Line(row.From)
	switch {
	case row.Status == view.RowFetching || row.Status == view.RowFailing:
		return ""
	case row.Status == view.RowQuarantined:
		return cmp.Or(from, "nobody") + " (not proved)"
	case row.Source == state.Self:
		return "the agent itself"
	case row.Source == state.Clock:
		return from + " (prompt)"
	case row.Source == state.CLI:
		return from + " (terminal)"
	case row.Source == state.EventSource && !row.Operator:
		return from + " (program)"
	case !row.Proved:
		return from + " (not proved)"
	}
	return from
}

// subjectOf returns the subject column of a list.
func subjectOf(row view.InboxRow) string {
	switch {
	case row.Damage != nil:
		return "(" + plain.Line(*row.Damage) + ")"
	case row.Status == view.RowFetching || row.Status == view.RowFailing:
		return plain.Line(row.Key)
	case row.Subject == "" && row.Payload != nil:
		return "(no subject)"
	}
	return plain.Line(row.Subject)
}

// filesOf returns the files column of a list: one name, or a count.
func filesOf(row view.InboxRow) string {
	switch len(row.Files) {
	case 0:
		return ""
	case 1:
		return "[" + plain.Line(row.Files[0]) + "]"
	}
	return fmt.Sprintf("[%d files]", len(row.Files))
}

// sentence turns the words of a standing into a sentence about the message.
func sentence(words string) string {
	if strings.HasPrefix(words, "its ") {
		return words
	}
	return "it " + words
}

// value returns the text behind a pointer of a row, on one line, or "".
func value(text *string) string {
	if text == nil {
		return ""
	}
	return plain.Line(*text)
}
