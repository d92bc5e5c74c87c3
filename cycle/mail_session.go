package cycle

import (
	"context"

	"agentstateloop/mail"
)

// mailSession is a poll's connection to the mailbox. It stays open from observing to marking
// \Seen, so a poll costs one login. A lingering poll also keeps it open afterwards.
type mailSession struct {
	lingers bool
	watch   *mail.Watch // of the last poll, if it lingers
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

// close closes the connection that a lingering poll has kept.
func (m *mailSession) close() {
	if m.watch != nil {
		m.watch.Close()
		m.watch = nil
	}
}
