package mail

import (
	"context"
	"time"

	"agentstateloop/mail/message"

	"github.com/emersion/go-imap/v2"
)

// Idles reports whether the server has not refused IDLE yet.
func (w *Watch) Idles() bool { return !w.noIdle }

// ReadSent returns the Message-IDs of the newest most mails of handle in the folder for sent mail. After
// m.Until it requests no more headers.
func (m Mailbox) ReadSent(ctx context.Context, handle string, most int) (ids []string, missing string, err error) {
	s, err := m.open(ctx, nil, &imap.SelectOptions{ReadOnly: true})
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	missing, err = s.readSent(handle, time.Time{}, most, func(h message.Header, _ time.Time) { ids = append(ids, h.InReplyTo) })
	return ids, missing, err
}
