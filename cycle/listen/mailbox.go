package listen

import (
	"context"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// mailbox is one mailbox and the agents that share it: one connection serves
// them all.
type mailbox struct {
	box      mail.Box
	posts    []*post
	listener *Listener
}

// mailboxes gives each mailbox of the agents once.
func (l *Listener) mailboxes() []*mailbox {
	var all []*mailbox
	byID := map[string]*mailbox{}
	for _, p := range l.posts {
		if p.Mail == nil {
			continue
		}
		id := p.Mail.Box.ID()
		if byID[id] == nil {
			byID[id] = &mailbox{box: p.Mail.Box, listener: l}
			all = append(all, byID[id])
		}
		byID[id].posts = append(byID[id].posts, p)
	}
	return all
}

// watch holds a connection that is told of new mail, and comes back when it is
// lost. A login that is refused is tried again after minutes, not seconds, so
// that no server takes us for a thief.
func (m *mailbox) watch(ctx context.Context) {
	lost := cycle.Backoff{Least: time.Second, Most: 5 * time.Minute}
	refused := cycle.Backoff{Least: 2 * time.Minute, Most: 30 * time.Minute}
	told := ""
	for ctx.Err() == nil {
		began := time.Now()
		err := m.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			lost.Reset()
			refused.Reset()
			told = ""
		}
		if text := err.Error(); text != told {
			m.listener.Tell("@%s: %s; trying again", m.posts[0].Handle, text)
			told = text
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

// session is one connection, until it is lost.
func (m *mailbox) session(ctx context.Context) error {
	w, err := m.box.Watch(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	// What came while nobody watched.
	for _, p := range m.posts {
		if s, err := p.Store.Read(); err != nil || w.UIDNext() == 0 || s.Cursor.Validity != w.Validity() || s.Cursor.Next < w.UIDNext() {
			p.wake()
		}
	}
	for {
		if err := w.Wait(ctx); err != nil {
			return err
		}
		for _, p := range m.posts {
			p.wake()
		}
	}
}
