package cycle

import (
	"context"
	"fmt"
	"io"
	"time"

	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// payloads is where observation keeps what it takes: the agent's store, or
// nowhere for a dry run. The names are those of state.Store.
type payloads interface {
	Keep(name string, r io.Reader) error
	KeepAmong(name string, r io.Reader) error
	Copy(from, to string) error
	Remove(name string) error
}

// observeMail looks into the mailbox. What was kept before a failure counts.
func (a *Agent) observeMail(ctx context.Context, q *quarantine, room int, obs *observation) {
	box := a.Mail.Mailbox
	box.Until = time.Now().Add(startWithin)
	session, err := a.openBox(ctx, box)
	if err != nil {
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail})
		return
	}
	obs.inbox = session
	obs.events = append(obs.events, state.CredentialWorked{Name: state.CredentialIMAP, Reading: true})

	events := map[string]state.Event{} // by key
	look, err := session.Scan(ctx, q.state.Cursor, a.Mail.Filter, room, func(m *mail.Message, raw io.Reader) (err error) {
		events[m.Key], err = keepMail(q, m, raw)
		return err
	})
	switch {
	case err != nil:
		obs.close() // it cannot be relied on any more: \Seen is for the next cycle
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail, Cursor: &look.Cursor})
	case look.Rest:
		// What was not looked at may be the operator's: this was no good look.
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail, Cursor: &look.Cursor})
	default:
		obs.events = append(obs.events, state.SourceRead{Source: state.Mail, Cursor: &look.Cursor})
	}
	for _, uid := range look.Failed {
		obs.events = append(obs.events, state.Unreadable{Key: fmt.Sprintf("mail:%s.%d.%d", a.Mail.Mailbox.ID(), look.Cursor.Validity, uid)})
	}
	for _, m := range look.Messages {
		obs.events = append(obs.events, events[m.Key])
	}
}

// keepMail stores a mail, in messages/ if it comes in, else in quarantine, and
// gives what the machine is to be told of it.
func keepMail(q *quarantine, m *mail.Message, raw io.Reader) (state.Event, error) {
	if m.Gate == "" || m.Ask {
		return q.acceptOrRefuse(m, raw)
	}
	return q.refuse(m, false, raw)
}

// refuse keeps a mail in quarantine.
func (q *quarantine) refuse(m *mail.Message, ask bool, raw io.Reader) (state.Event, error) {
	size := m.Size
	if m.Gate == mail.GateSize {
		size = 0 // its header only is kept
	}
	unkept, err := q.keep(Refusal{
		Key: m.Key, Source: state.Mail, From: m.Header.From, Subject: m.Header.Subject,
		Gate: m.Gate, Reason: m.Reason, At: m.At,
	}, m.Digest, size, raw)
	return rejection(m, unkept, ask), err
}

func rejection(m *mail.Message, unkept, ask bool) state.Rejected {
	return state.Rejected{
		Key: m.Key, Source: state.Mail, From: m.Header.From,
		Gate: m.Gate, Reason: m.Reason, At: m.At, Digest: m.Digest, Unkept: unkept, Ask: ask,
	}
}

// mailArrived tells the machine of a mail that comes in; control is what it says
// if it says nothing else.
func mailArrived(m mail.Message, control string) state.Event {
	arrived := state.Arrived{
		Message: state.Message{
			Key: m.Key, Source: state.Mail, From: m.Header.From, Operator: true,
			At: m.At, Payload: mailPayload(m.Key),
		},
		Digest: m.Digest,
		UID:    m.UID,
		Thread: mailThread(m.Header),
	}
	if control != "" {
		return state.Controlled{Arrived: arrived, Control: control}
	}
	return arrived
}

// mailThread is the conversation a mail belongs to, as an answer continues it.
func mailThread(h message.Header) state.Thread {
	return state.Thread{Subject: h.Subject, MessageID: h.MessageID, References: h.References}
}

func mailPayload(key string) string { return store.PayloadName(store.MessagesDir, key, ".eml") }
