package present

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

// InboxStatus describes the status of an inbox row in words.
type InboxStatus struct {
	State  state.State
	Policy state.Policy
	Now    time.Time
}

// Of returns the status of a row.
func (i InboxStatus) Of(row view.InboxRow) string {
	switch row.Status {
	case view.RowFetching:
		return "large, being fetched"
	case view.RowFailing:
		return fmt.Sprintf("cannot be fetched, %s, next try %s%s",
			terminal.Count(row.Tries, "failure"), i.clock(*row.NextRetryAt), reasonSuffix(OneLine(row.Reason)))
	case view.RowQuarantined:
		return "quarantined by gate " + OneLine(row.Gate) + reasonSuffix(OneLine(row.Reason))
	}
	return i.ofMessage(*row.Message)
}

func (i InboxStatus) clock(t time.Time) string { return terminal.Clock(t, i.Now) }

func (i InboxStatus) ofMessage(m state.Message) string {
	switch m.Status {
	case state.Consumed:
		return "its turn is over"
	case state.Errored:
		return "failed"
	case state.Skipped:
		return "ended without a turn"
	}
	if i.State.SharesTurn(m) {
		return i.ofTurn()
	}
	h, held := i.State.HeldBack(m, i.Policy, i.Now)
	switch {
	case !held && m.Attempts > 0:
		return "waits for the next attempt"
	case !held:
		return "waits for its turn"
	case h.Until.IsZero():
		return "waits" + reasonSuffix(plain.Line(h.Why))
	case m.Source == state.Self && m.TurnID == "":
		return wakeupPrefix(m.Kind) + " " + i.clock(h.Until)
	}
	return "waits until " + i.clock(h.Until) + reasonSuffix(plain.Line(h.Why))
}

// wakeupPrefix returns the words for a wakeup that the agent has planned.
func wakeupPrefix(kind string) string {
	switch kind {
	case state.KindSleep:
		return "sleeps until"
	case state.KindRest:
		return "rests until"
	}
	return "reminds itself at"
}

// ofTurn returns the status of the active turn.
func (i InboxStatus) ofTurn() string {
	head := i.State.Turn
	switch {
	case head.Status == state.HeadSuspended:
		return i.ofSuspended(head)
	case head.Pulled:
		return "taken by inbox next at " + i.clock(head.Since)
	case head.Status == state.HeadDispatched:
		return "its turn is starting"
	case head.Stop != "":
		return "its turn is being stopped"
	}
	return "its turn started at " + i.clock(head.Since)
}

// ofSuspended describes the open questions of a turn, and the work that it has started.
func (i InboxStatus) ofSuspended(head state.Head) string {
	var asked, started, asks []string
	var until time.Time
	for _, w := range head.Waiting {
		switch to := plain.Line(w.To); {
		case w.Answered():
			continue
		case w.Operator:
			asks = append(asks, inQuotes(w.Text)+optionsSuffix(w.Options))
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
		return "asks you " + strings.Join(asks, " and ") + ", waits until " + i.clock(until)
	}
	if len(asked)+len(started) == 0 {
		return "its turn has all answers and resumes"
	}
	text := "asked " + strings.Join(asked, ", ") + ", waits for the " + answers(len(asked))
	switch {
	case len(asked) == 0:
		text = "waits for " + strings.Join(started, ", ")
	case len(started) > 0:
		text += " and for " + strings.Join(started, ", ")
	}
	return text + " until " + i.clock(until)
}

// optionsSuffix returns the options of a question in brackets, or "".
func optionsSuffix(options []string) string {
	return around(" (", plain.Line(strings.Join(options, ", ")), ")")
}

func answers(n int) string {
	if n == 1 {
		return "answer"
	}
	return "answers"
}

// InboxSender returns the sender of a row, and notes if the name is not proved.
func InboxSender(row view.InboxRow) string {
	from := plain.Line(row.From)
	switch {
	case row.Status == view.RowFetching || row.Status == view.RowFailing:
		return ""
	case row.Status == view.RowQuarantined:
		return cmp.Or(from, "unknown sender") + " (not proved)"
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

// InboxSubject returns the subject column of a list.
func InboxSubject(row view.InboxRow) string {
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

// InboxFiles returns the files column of a list: one name, or a count.
func InboxFiles(row view.InboxRow) string {
	switch len(row.Files) {
	case 0:
		return ""
	case 1:
		return "[" + plain.Line(row.Files[0]) + "]"
	}
	return fmt.Sprintf("[%d files]", len(row.Files))
}

// WithSubject turns an inbox status into a sentence about the message.
func WithSubject(words string) string {
	if strings.HasPrefix(words, "its ") {
		return words
	}
	return "it " + words
}

// OneLine returns the text behind a pointer of a row, on one line, or "".
func OneLine(text *string) string {
	if text == nil {
		return ""
	}
	return plain.Line(*text)
}

// InboxNumber returns the number of a row, or its key if it has no number.
func InboxNumber(row view.InboxRow) string {
	if row.Number == nil {
		return plain.Line(row.Key)
	}
	return *row.Number
}
