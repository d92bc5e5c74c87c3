package mail

import (
	"context"
	"time"

	"agentstateloop/mail/message"
)

// Idles reports whether the server has not refused IDLE yet.
func (w *Watch) Idles() bool { return !w.noIdle }

// ReadSent returns the Message-IDs of the newest most mails of handle in the folder for sent mail.
func (m Mailbox) ReadSent(ctx context.Context, handle string, most int) (ids []string, missing string, err error) {
	missing, err = m.readSent(ctx, handle, time.Time{}, most, func(h message.Header, _ time.Time) { ids = append(ids, h.InReplyTo) })
	return ids, missing, err
}
