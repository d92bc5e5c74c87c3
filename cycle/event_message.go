package cycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// EventMessage is a message from a program on this machine, or from the operator at its
// terminal (docs/protocol.md, "Words of programs"). The answer is mailed to the operator.
type EventMessage struct {
	From     string // the program; "" = unknown
	Subject  string // of the answer's mail; "" = the beginning of Text
	Text     string
	Operator bool // the sender is the operator
}

// ErrEventsFull means that the limit of waiting messages from programs is reached.
var ErrEventsFull = fmt.Errorf("%d messages of programs already wait in the inbox: send it again later, or leave it as a file in nudges/", state.MaxEventMessages)

// ErrEventText means that a text cannot be a message.
var ErrEventText = errors.New("the message was not accepted")

// TellEvent puts a message into the inbox and returns its key. The message is durable
// when TellEvent returns. The error may be ErrEventsFull, or wrap ErrEventText.
func (a *Agent) TellEvent(ctx context.Context, e EventMessage) (key string, err error) {
	if fault := store.EventFault([]byte(e.Text)); fault != "" {
		return "", fmt.Errorf("%w: %s", ErrEventText, fault)
	}
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	if !e.Operator && s.RoomForEvents() == 0 {
		return "", ErrEventsFull
	}
	arrived, err := eventArrived(a.Store, "event:"+store.NewID(), e)
	if err != nil {
		return "", err
	}
	arrived.Message.At, arrived.IfRoom = a.Now(), !e.Operator
	if e.Operator && a.Policy.ByThread { // its answer is mailed, and begins a thread
		arrived.Message.ThreadID = message.NewThread(arrived.Message.Key)
	}
	if s, err = a.journal().commit(ctx, arrived); err != nil {
		return "", err
	}
	if _, in := s.Message(arrived.Message.Key); !in {
		_ = a.Store.Remove(arrived.Message.Payload) // other messages took the room
		return "", ErrEventsFull
	}
	return arrived.Message.Key, nil
}

// eventArrived keeps the text of a message and returns its event, without the time.
func eventArrived(files payloads, key string, e EventMessage) (state.Arrived, error) {
	payload := store.PayloadName(store.MessagesDir, key, ".txt")
	sum, err := files.KeepSummed(payload, strings.NewReader(e.Text))
	if err != nil {
		return state.Arrived{}, fmt.Errorf("save message: %w", err)
	}
	m := state.Message{
		Key: key, Source: state.EventSource, From: eventName(e.From), Operator: e.Operator, Proof: state.ByProgram, Title: eventTitle(e), Payload: payload, Sum: sum,
	}
	if e.Operator {
		m.Proof = ""
	}
	return state.Arrived{Message: m}, nil
}

// eventName returns an unambiguous name: every character except letters, digits and . _ @ -
// becomes a -.
func eventName(from string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._@-", r):
			return r
		}
		return '-'
	}, strings.TrimSpace(from))
	if name = name[:min(len(name), maxEventName)]; name == "" {
		return "program"
	}
	return name
}

// eventTitle returns the subject of a message: the sender's, or the beginning of the first
// line.
func eventTitle(e EventMessage) string {
	title := plain.Line(plain.Cut(e.Subject, 4*maxEventTitle))
	if title == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(e.Text), "\n")
		title = plain.Line(plain.Cut(first, 4*maxEventTitle))
	}
	return plain.Shorten(title, maxEventTitle)
}

// formGate rejects the files of programs that cannot be a message.
const formGate = "form"

// takeMessageFile returns the events of a file in nudges/ whose name ends in .message. The file
// becomes a message, or goes to quarantine. If the quarantine cannot keep it, it is set aside,
// and there are no events.
func (ad *admission) takeMessageFile(n store.NudgeFile) ([]state.Event, error) {
	e := EventMessage{From: strings.TrimSuffix(n.Name, store.MessageSuffix), Text: string(n.Text)}
	took := state.TookFile{Key: n.Key}
	if n.Fault == "" {
		arrived, err := eventArrived(ad.files, n.Key, e)
		arrived.Message.At = n.At
		return []state.Event{took, arrived}, err
	}
	rejected := state.Rejected{Key: n.Key, Source: state.EventSource, From: eventName(e.From), Gate: formGate, Reason: n.Fault, At: n.At.UTC()}
	unkept, err := n.Unreadable, error(nil)
	if !unkept {
		unkept, err = ad.quarantine.Keep(quarantine.Verdict{
			Key: rejected.Key, Source: rejected.Source, From: rejected.From, Gate: rejected.Gate, Reason: rejected.Reason, At: rejected.At,
		}, "", int64(len(n.Text)), bytes.NewReader(n.Text))
	}
	if err != nil || !unkept {
		return []state.Event{took, rejected}, err
	}
	return nil, ad.files.SetAside(n)
}

// maxEventName and maxEventTitle limit the name and the title of a program's message, in
// characters.
const (
	maxEventName  = 64
	maxEventTitle = 80
)
