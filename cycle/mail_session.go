package cycle

import (
	"context"

	"agentstateloop/mail"
)

// mailSession is the connection with which a poll looks into the mailbox. It
// stays open from observing to marking \Seen, so a poll costs one login. That of
// a lingering poll stays open after the poll, too.
type mailSession struct {
	lingers bool
	watch   *mail.Watch // of the last poll, where it lingers
}

// open opens the mailbox for one observation.
func (m *mailSession) open(ctx context.Context, box mail.Mailbox) (*mail.Session, error) {
	if !m.lingers {
		return box.Open(ctx)
	}
	w, err := box.Watch(ctx)
	if err != nil {
		return nil, err
	}
	m.close()
	m.watch = w
	return w.Session, nil
}

// done ends an observation's use of the mailbox.
func (m *mailSession) done(obs *observation) {
	if !m.lingers {
		obs.close()
	}
}

// close ends the connection that a lingering poll has kept.
func (m *mailSession) close() {
	if m.watch != nil {
		m.watch.Close()
		m.watch = nil
	}
}
