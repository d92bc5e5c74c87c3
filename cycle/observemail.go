package cycle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state"
)

// payloads is where observation keeps what it takes: the agent's store, or a
// scratch folder for a dry run.
type payloads interface {
	Keep(name string, r io.Reader) error
}

// observeMail looks into the mailbox. What was kept before a failure counts.
func (a *Agent) observeMail(ctx context.Context, store payloads, cur state.Cursor, room int, obs *observation) {
	box := a.Mail.Box
	box.Until = time.Now().Add(startWithin)
	session, err := a.openBox(ctx, box)
	if err != nil {
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.LookFailed{Source: state.Mail, Reason: err.Error()})
		return
	}
	obs.inbox = session
	obs.events = append(obs.events, state.CredentialWorked{Name: "imap"})

	controls := map[string]string{} // by key
	look, err := session.Look(ctx, cur, a.Mail.Filter, room, func(m *mail.Message, raw io.Reader) error {
		head := &prefix{room: longestControl}
		if err := keepMail(store, m, io.TeeReader(raw, head)); err != nil {
			return err
		}
		if m.Gate == "" && !head.full {
			controls[m.Key] = mail.Control(mail.ReadContent(bytes.NewReader(head.data)).Text)
		}
		return nil
	})
	switch {
	case err != nil:
		obs.close() // it cannot be relied on any more: \Seen is for the next cycle
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.LookFailed{Source: state.Mail, Reason: err.Error(), Cursor: &look.Cursor})
	case look.Rest:
		// What was not looked at may be the operator's: this was no good look.
		obs.events = append(obs.events, state.LookFailed{Source: state.Mail, Reason: "more mail waits", Cursor: &look.Cursor})
	default:
		obs.events = append(obs.events, state.Looked{Source: state.Mail, Cursor: &look.Cursor})
	}
	for _, uid := range look.Failed {
		obs.events = append(obs.events, state.Unreadable{Key: fmt.Sprintf("mail:%s.%d.%d", a.Mail.Box.ID(), look.Cursor.Validity, uid)})
	}
	for _, m := range look.Messages {
		obs.events = append(obs.events, mailEvent(m, controls[m.Key]))
	}
}

// longestControl is the size up to which a mail is looked at for a control.
const longestControl = 256 << 10

// prefix keeps the beginning of what is written to it.
type prefix struct {
	room int
	data []byte
	full bool // there was more
}

func (p *prefix) Write(b []byte) (int, error) {
	n := min(len(b), p.room-len(p.data))
	p.data = append(p.data, b[:n]...)
	p.full = p.full || n < len(b)
	return len(b), nil
}

// mailEvent tells the machine of one mail for this agent.
func mailEvent(m mail.Message, control string) state.Event {
	if m.Gate != "" {
		return state.Refused{
			Key: m.Key, Source: state.Mail, From: m.Header.From, Subject: m.Header.Subject,
			Gate: m.Gate, Reason: m.Reason, At: m.At,
		}
	}
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
func mailThread(h mail.Header) state.Thread {
	return state.Thread{Subject: h.Subject, MessageID: h.MessageID, References: h.References}
}

func mailPayload(key string) string { return state.PayloadName(state.MessagesDir, key, ".eml") }

// keepMail stores a mail: in messages/ if it passed the gate, else in
// quarantine with the gate's word beside it.
func keepMail(store payloads, m *mail.Message, raw io.Reader) error {
	if m.Gate == "" {
		return store.Keep(mailPayload(m.Key), raw)
	}
	return quarantine(store, Refusal{
		Key: m.Key, Source: state.Mail, From: m.Header.From, Subject: m.Header.Subject,
		Gate: m.Gate, Reason: m.Reason, At: m.At,
	}, "message.eml", raw)
}

// quarantine keeps what failed the gate, with gate, reason and evidence.
func quarantine(store payloads, r Refusal, name string, raw io.Reader) error {
	dir := state.PayloadName(state.QuarantineDir, r.Key, "")
	if err := store.Keep(dir+"/"+name, raw); err != nil {
		return err
	}
	verdict, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("quarantine %s: %w", r.Key, err)
	}
	return store.Keep(dir+"/verdict.json", strings.NewReader(string(verdict)+"\n"))
}
