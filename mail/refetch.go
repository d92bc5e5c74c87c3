package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"agentstateloop/state"
)

// ErrNotThere reports that the server's answer contained no mail.
var ErrNotThere = errors.New("the mailbox does not have it")

// UID returns the UID of the mail under key. ok is false if the key belongs to another mailbox,
// or to this one before it was renumbered.
func (s *Session) UID(key string) (uid uint32, ok bool) {
	prefix := state.Cursor{Mailbox: s.mailbox.ID(), Validity: s.uidValidity}.Key(0)
	number, ok := strings.CutPrefix(key, strings.TrimSuffix(prefix, "0"))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), err == nil && n > 0
}

// Refetch hands the raw bytes of one mail to keep, regardless of its flags, and changes no
// flag. The error wraps ErrNotThere if the server did not send the mail. Refetch returns an
// error of keep unchanged. After any other error the session cannot be used any more.
func (s *Session) Refetch(ctx context.Context, uid uint32, keep func(raw io.Reader) error) error {
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	s.mailbox.startPhase(s.conn)
	cmd := s.client.Fetch(uidSet([]uint32{uid}), &imap.FetchOptions{
		UID: true, BodySection: []*imap.FetchItemBodySection{{Peek: true}},
	})
	kept := ErrNotThere
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
		for item := msg.Next(); item != nil; item = msg.Next() {
			body, ok := item.(imapclient.FetchItemDataBodySection)
			if !ok || body.Literal == nil || kept != ErrNotThere {
				continue
			}
			raw, err := s.literal(uid, body.Literal, maxLiteral)
			if err == nil {
				kept = keep(&wholeReader{countingReader: raw, size: body.Literal.Size()})
				if torn := raw.finish(body.Literal.Size()); torn != nil {
					err = &brokenBodyError{uid, torn}
				}
			}
			if err != nil {
				s.abandon(cmd, err)
				return fmt.Errorf("fetch UID %d again: %w", uid, cause(ctx, err))
			}
		}
	}
	err := cmd.Close()
	if refused, ok := errors.AsType[*imap.Error](err); ok {
		return fmt.Errorf("%w: %v", ErrNotThere, refused)
	}
	if err := s.conn.failure(err); err != nil {
		return fmt.Errorf("fetch UID %d again: %w", uid, cause(ctx, err))
	}
	return kept
}
