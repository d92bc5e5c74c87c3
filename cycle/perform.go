package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"agentstateloop/mail"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// errWithdrawn stops a send whose row is gone or held since it was begun.
var errWithdrawn = errors.New("withdrawn")

// perform sends what the outbox holds, one effect at a time, each result
// committed before the next is begun. The caller holds cycle.lock. It starts
// nothing after startWithin, and returns the state as it is then and how many
// effects were sent.
func (a *Agent) perform(ctx context.Context, s state.State) (state.State, int, error) {
	post := &post{agent: a}
	defer post.close()
	sent := 0
	for began := a.Now(); a.Now().Sub(began) < startWithin && ctx.Err() == nil; {
		result := post.next(ctx, s)
		if len(result) == 0 {
			break
		}
		next, err := a.commit(ctx, result...)
		if err != nil {
			return s, sent, err
		}
		s = next
		if _, ok := result[0].(state.Sent); ok {
			sent++
		}
	}
	return s, sent, nil
}

// next does the next thing that is to be done, and says what came of it: an
// effect is sent, or it is found out whom to ask, or whether we may send again.
func (p *post) next(ctx context.Context, s state.State) []state.Event {
	if p.agent.Mail != nil && s.Fails(state.CredentialSMTP) && !s.Denied(state.CredentialSMTP) && !p.tried {
		p.tried = true
		if said := p.trySMTP(ctx); said != nil {
			return said
		}
	}
	due := s.DueEffects(p.agent.Now())
	switch {
	case len(due) > 0 && due[0].Kind == state.Relay && p.placed != due[0].ID:
		p.placed = due[0].ID
		return []state.Event{state.Online{Handles: p.whoIsOnline(ctx)}}
	case len(due) > 0:
		return p.send(ctx, due[0])
	}
	return nil
}

// whoIsOnline asks the mesh's registry, once. One that cannot be had shows
// nobody.
func (p *post) whoIsOnline(ctx context.Context) []string {
	if p.asked || p.agent.Mesh == nil {
		return p.online
	}
	p.asked = true
	online, err := p.agent.Mesh.Client.Online(ctx)
	if err != nil {
		return nil
	}
	for _, other := range online {
		p.online = append(p.online, other.Handle)
	}
	return p.online
}

// trySMTP logs in again where that was refused before: each cycle does, whether
// there is something to send or not, or it would never be known that it works.
func (p *post) trySMTP(ctx context.Context) []state.Event {
	sender, err := p.agent.Mail.SMTP.OpenSender(ctx)
	if refused, ok := state.CredentialFailure(err); ok {
		return []state.Event{state.CredentialFailed{Name: refused.Name, Reason: refused.Err.Error()}}
	}
	if err != nil {
		return nil // the network's fault says nothing about the login
	}
	p.sender = sender
	return []state.Event{state.CredentialWorked{Name: state.CredentialSMTP}}
}

// post holds what sending needs for as long as one perform lasts.
type post struct {
	agent  *Agent
	sender *mail.Sender // opened by the first mail

	tried  bool     // to log in where that was refused before
	asked  bool     // the mesh's registry
	online []string // as it said
	placed string   // the request to relay for which it was looked at
}

func (p *post) close() {
	if p.sender != nil {
		p.sender.Close()
	}
}

// send performs one effect and says what came of it: first its own event, then
// what is to be said of the credential.
func (p *post) send(ctx context.Context, e state.Effect) []state.Event {
	if e.Channel == state.ByMesh {
		return p.sendMesh(ctx, e)
	}
	return p.sendMail(ctx, e)
}

func (p *post) sendMail(ctx context.Context, e state.Effect) []state.Event {
	a := p.agent
	if a.Mail == nil {
		return []state.Event{state.SendFailed{ID: e.ID, Permanent: true, Reason: "no mail is configured any more"}}
	}
	body, err := os.Open(a.Store.Path(e.File))
	if err != nil {
		return []state.Event{state.SendFailed{ID: e.ID, Permanent: true, Reason: fmt.Sprintf("its rendered text is gone: %v", err)}}
	}
	defer body.Close()
	if p.sender == nil {
		if p.sender, err = a.Mail.SMTP.OpenSender(ctx); err != nil {
			return failed(e, err)
		}
	}
	err = p.sender.Send(ctx, a.Mail.Address, []string{e.To}, body, func() error { return a.beforeDot(ctx, e.ID) })
	if err == nil {
		return []state.Event{state.Sent{ID: e.ID}, state.CredentialWorked{Name: state.CredentialSMTP}}
	}
	p.close()
	p.sender = nil
	return failed(e, err)
}

// beforeDot records that the effect may have happened from now on.
func (a *Agent) beforeDot(ctx context.Context, id string) error {
	s, err := a.commit(ctx, state.Sending{ID: id})
	if err != nil {
		return err
	}
	if row, ok := s.Effect(id); !ok || s.Halted() && row.Kind != state.Answer {
		return errWithdrawn
	}
	return nil
}

// failed turns an error of sending into events.
func failed(e state.Effect, err error) []state.Event {
	event := state.SendFailed{ID: e.ID, Reason: err.Error()}
	var refused *mail.SendError
	var unsent *mesh.Error
	switch {
	case errors.As(err, &refused):
		event.Permanent = refused.Verdict == mail.Permanent
		event.Unknown = refused.Verdict == mail.Unknown
	case errors.As(err, &unsent):
		event.Permanent = !unsent.Temporary()
		event.RetryAfter = unsent.RetryAfter
	}
	events := []state.Event{event}
	if credential, ok := state.CredentialFailure(err); ok {
		event.Permanent, event.Denied = false, true
		events[0] = event
		events = append(events, state.CredentialFailed{Name: credential.Name, Reason: credential.Err.Error()})
	}
	return events
}

// sendMesh posts a message. The mesh knows its id, so that one whose answer was
// lost is simply posted again.
func (p *post) sendMesh(ctx context.Context, e state.Effect) []state.Event {
	a := p.agent
	if a.Mesh == nil {
		return []state.Event{state.SendFailed{ID: e.ID, Permanent: true, Reason: "no mesh is configured any more"}}
	}
	var m mesh.Message
	data, err := os.ReadFile(a.Store.Path(e.File))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return []state.Event{state.SendFailed{ID: e.ID, Permanent: true, Reason: fmt.Sprintf("its rendered text is gone: %v", err)}}
	}
	if e.Credential != "" {
		// Else a word that was posted just before this process died could be
		// withdrawn, or go another way as well.
		if err := a.beforeDot(ctx, e.ID); err != nil {
			return failed(e, err)
		}
	}
	if _, err := a.Mesh.Client.Send(ctx, m); err != nil {
		return failed(e, err)
	}
	return []state.Event{state.Sent{ID: e.ID}, state.CredentialWorked{Name: state.CredentialMesh}}
}
