package listen

import (
	"context"
	"slices"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// mailboxWatch watches a mailbox for all agents that share it, through one connection.
type mailboxWatch struct {
	box      mail.Mailbox
	listener *Listener
	cancel   context.CancelFunc
	agents   []*servedAgent // guarded by the listener's mu; the slice is never modified
}

// join watches the mailbox of an agent.
func (l *Listener) join(ctx context.Context, p *servedAgent) {
	if p.Mail == nil {
		return
	}
	id := p.Mail.Mailbox.ID()
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.mailboxes[id]
	if m == nil {
		m = &mailboxWatch{box: p.Mail.Mailbox, listener: l}
		ctx, m.cancel = context.WithCancel(ctx)
		l.mailboxes[id] = m
		l.running.Go(l.Secrets.Guarded(func() { m.watch(ctx) }))
	}
	m.agents = append(slices.Clone(m.agents), p)
}

// leave stops watching the mailbox of an agent if no other agent shares it.
func (l *Listener) leave(p *servedAgent) {
	if p.Mail == nil {
		return
	}
	id := p.Mail.Mailbox.ID()
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.mailboxes[id]
	if m == nil {
		return
	}
	m.agents = slices.DeleteFunc(slices.Clone(m.agents), func(q *servedAgent) bool { return q == p })
	if len(m.agents) == 0 {
		m.cancel()
		delete(l.mailboxes, id)
	}
}

// sharing returns the agents that share the mailbox now.
func (m *mailboxWatch) sharing() []*servedAgent {
	m.listener.mu.Lock()
	defer m.listener.mu.Unlock()
	return m.agents
}

// lostPauses returns the pauses after a lost connection, refusedPauses those after a refused
// login.
func lostPauses() cycle.Backoff    { return cycle.Backoff{Min: time.Second, Max: 5 * time.Minute} }
func refusedPauses() cycle.Backoff { return cycle.Backoff{Min: 2 * time.Minute, Max: 30 * time.Minute} }

// watch keeps a connection that reports new mail, and reconnects after a loss. After a refused
// login it waits minutes, not seconds, because a server may mistake frequent attempts for an
// attack.
func (m *mailboxWatch) watch(ctx context.Context) {
	lost, refused := lostPauses(), refusedPauses()
	logged := ""
	for ctx.Err() == nil {
		began := time.Now()
		err := m.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			lost.Reset()
			refused.Reset()
			logged = ""
		}
		if text := err.Error(); text != logged {
			if agents := m.sharing(); len(agents) > 0 {
				m.listener.Logf("@%s: %s; trying again", agents[0].Handle, text)
			}
			logged = text
		}
		wait := lost.Next()
		if _, is := state.CredentialFailure(err); is {
			wait = refused.Next()
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// session runs one connection until it is lost.
func (m *mailboxWatch) session(ctx context.Context) error {
	w, err := m.box.Watch(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	// Mail may have arrived while the mailbox was not watched.
	for _, p := range m.sharing() {
		if s, err := p.Store.Read(); err != nil || w.UIDNext() == 0 || s.Cursor.Validity != w.UIDValidity() || s.Cursor.Next < w.UIDNext() {
			p.requestPoll()
		}
	}
	for {
		if err := w.Wait(ctx); err != nil {
			return err
		}
		for _, p := range m.sharing() {
			p.requestPoll()
		}
	}
}
