package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/state"
)

// A turn asks the operator by mail (docs/design.md, "Suspension").

// OperatorQuestion is a question of a turn to the operator.
type OperatorQuestion struct {
	Text     string
	Options  []string      // answers that the mail offers; the operator may answer with any other text
	Patience time.Duration // the longest wait of the turn; 0 = state.DefaultOperatorPatience

	// Permit is set if the question is whether a tool may be called. The events of the attempt
	// then identify the call.
	Permit bool
}

// byEvents takes the place of a call's identity if the events of the attempt hold it. No call
// has this identity.
const byEvents = "in the events"

// ErrNoOperatorMail means that the agent has no way to ask its operator.
var ErrNoOperatorMail = errors.New("this agent cannot ask its operator: no mail, or no operator address, is configured")

// Check returns an error that tells the asker why the question is invalid, or nil.
func (q OperatorQuestion) Check() error {
	if q.Patience != 0 && (q.Patience < state.MinOperatorPatience || q.Patience > state.MaxPatience) {
		return fmt.Errorf("the deadline must be between %.0f minute and %.0f hours", state.MinOperatorPatience.Minutes(), state.MaxPatience.Hours())
	}
	return state.CheckOperatorQuestion(q.Text, q.Options)
}

// AskOperator puts a question to the operator, and returns its id. The question and its mail
// are durable before AskOperator returns. The turn may end now; the same turn goes on when the
// operator answers or the deadline passes. The errors are ErrStale, ErrNoOperatorMail, and
// those of Check, of the limits, and of the disk.
func (a *Agent) AskOperator(ctx context.Context, in Inside, q OperatorQuestion) (id string, err error) {
	permit := ""
	if q.Permit {
		permit = byEvents
	}
	return a.operatorAsker().ask(ctx, in, q, permit)
}

// operatorAsker asks the operator.
type operatorAsker struct {
	handle   string
	operator string // the first address, or ""
	mail     *Mail  // nil: no mail is configured
	journal  *journal
	flusher  *flusher
}

// ask is AskOperator. If the question is whether a tool may be called, permit identifies the
// call.
func (o *operatorAsker) ask(ctx context.Context, in Inside, q OperatorQuestion, permit string) (id string, err error) {
	if err := q.Check(); err != nil {
		return "", err
	}
	s, err := in.state(o.journal.core)
	if err != nil {
		return "", err
	}
	if o.mail == nil || o.operator == "" {
		return "", ErrNoOperatorMail
	}
	e := state.Effect{Kind: state.OperatorQuestion, Channel: state.ByMail, To: o.operator, Text: q.Text, Options: slices.Clone(q.Options), TurnID: in.TurnID}
	e.Thread.Subject = "@" + o.handle + " asks: " + view.TitleOf(q.Text)
	if msg, ok := s.TurnMessage(); ok && msg.Operator && msg.Source != state.Mail {
		e.Thread.ID = msg.ThreadID
	} else if ok && msg.Source == state.Mail {
		m, err := readMessage(o.journal.store, s.Turn, msg)
		if err != nil {
			return "", err
		}
		e.To, e.Thread = msg.From, m.thread
	}
	var refused string
	s, err = o.journal.commitWith(ctx, func(next state.State) error {
		for _, l := range next.Lines {
			switch {
			case l.Kind == state.LineEffect && l.Effect != nil && l.Effect.Kind == state.OperatorQuestion:
				id = l.ID
			case l.Kind == state.LineTurn && l.What == state.WordRefused:
				refused = l.Reason
			}
		}
		return nil
	}, state.Asked{TurnID: in.TurnID, Epoch: in.Epoch, Question: e, Patience: cmp.Or(q.Patience, state.DefaultOperatorPatience), Permit: permit})
	if err != nil {
		return "", err
	}
	if err := in.check(s); err != nil {
		return "", err
	}
	if id == "" {
		return "", fmt.Errorf("the operator was not asked: %s", refused)
	}
	return id, o.flusher.sendNow(ctx, s)
}

// operatorQuestionText returns the mail of a question to the operator, as Markdown.
func operatorQuestionText(e state.Effect) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(e.Text))
	b.WriteString("\n\n")
	if len(e.Options) > 0 {
		numbered := state.NumberedOptions(e.Options)
		if numbered {
			b.WriteString("Reply with one of these, or its number:\n\n")
		} else {
			b.WriteString("Reply with one of these:\n\n")
		}
		for i, option := range e.Options {
			mark := "-"
			if numbered {
				mark = strconv.Itoa(i+1) + "."
			}
			fmt.Fprintf(&b, "%s %s\n", mark, option)
		}
		b.WriteString("\nYou can also reply with anything else. ")
	} else {
		b.WriteString("Reply to this mail, and I will continue with your answer. ")
	}
	fmt.Fprintf(&b, "I will wait until %s UTC, then continue without an answer.\n", e.Expires.UTC().Format("2006-01-02 15:04"))
	if e.Asker != "" {
		fmt.Fprintf(&b, "\nI am asking because of a message from %s, not from you.\n", askerName(e.Asker))
	}
	return b.String()
}

// askerName names the principal that caused the asking turn, for people.
func askerName(who state.Principal) string {
	form, name, _ := strings.Cut(string(who), ":")
	if form == "event" {
		return "the program " + plain.Line(name)
	}
	return "@" + plain.Line(name)
}

// question returns the id of the operator question that a mail answers, or "". The mail must
// refer to one of our Message-IDs, which cannot be guessed.
func (ac accepter) question(h message.Header) (string, error) {
	if ac.mail == nil || !ac.mail.Filter.MayAnswer(h, string(state.OperatorQuestion)) {
		return "", nil
	}
	filter, err := ac.idKeys.filter(ac.mail)
	if err != nil {
		return "", err
	}
	return filter.Answers(h, string(state.OperatorQuestion)), nil
}

// asReply returns the event of a mail that may answer a question. arrived is the event of the
// mail itself. A control stays a control.
func asReply(arrived state.Event, question string) state.Event {
	mail, ok := arrived.(state.Arrived)
	if question == "" || !ok {
		return arrived
	}
	return state.Replied{Arrived: mail, Question: question}
}

// takeProvenByQuestion takes a mail that lacks only a proof of its sender if it answers an open
// question. Like the answer to a challenge, such a mail shows knowledge that only a reader of
// our mail can have. Otherwise takeProvenByQuestion returns nil.
func (ad *admission) takeProvenByQuestion(m *mail.Message, question, control string, whole io.Reader) (state.Event, error) {
	if question == "" || ad.answered[question] || !ad.state.AsksOperatorAt(question, m.At) {
		return nil, nil
	}
	ad.answered[question] = true
	arrived, err := ad.keepMail(ad.files, *m, control, whole)
	e := state.Replied{Question: question, Else: rejection(m, true, false), Control: control}
	switch a := arrived.(type) {
	case state.Arrived:
		e.Arrived = a
	case state.Controlled:
		e.Arrived = a.Arrived
	}
	return e, err
}
