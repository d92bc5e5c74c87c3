package mail

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// This file tracks the mails that a scan still owes, the UIDs that no answer has shown, and the
// mails to blame for a failure.

// dueMail returns the owed mails to take now. owed are the mails that have not failed. failing
// are the failed mails that are due, the longest waiting first.
func (sc *scanner) dueMail() (owed, failing []uint32) {
	cur := &sc.out.Cursor
	for _, u := range cur.Owed {
		if slices.Contains(cur.Large, u) {
			continue // left to FetchLarge
		}
		if _, failed := cur.Failures[u]; failed {
			failing = append(failing, u)
		} else {
			owed = append(owed, u)
		}
	}
	return owed, sc.due(failing)
}

// due returns the failed mails among uids that are due for another try.
func (sc *scanner) due(uids []uint32) []uint32 {
	failures := sc.out.Cursor.Failures
	uids = slices.DeleteFunc(uids, func(u uint32) bool { return !failures[u].Due(sc.mailbox.now()) })
	order.Stable(uids, func(a, b uint32) int { return failures[a].Next.Compare(failures[b].Next) })
	return uids
}

// pass removes u from the owed mails and moves the cursor past it.
func (sc *scanner) pass(u uint32) {
	sc.settle(u)
	sc.passUpTo(u)
}

// passUpTo moves the cursor past u. The UIDs in between were not shown.
func (sc *scanner) passUpTo(u uint32) {
	cur := &sc.out.Cursor
	if u < cur.Next {
		return
	}
	sc.recordUnseen(state.UIDRange{First: cur.Next, Last: u - 1})
	cur.Next = u + 1
}

// passTo moves the cursor to end, unless end is 0. The UIDs in between were not shown.
func (sc *scanner) passTo(end uint32) {
	cur := &sc.out.Cursor
	if end <= cur.Next {
		return
	}
	sc.recordUnseen(state.UIDRange{First: cur.Next, Last: end - 1})
	cur.Next = end
}

// recordUnseen records UIDs that were not shown. It leaves out those that are owed.
func (sc *scanner) recordUnseen(ranges ...state.UIDRange) {
	cur := &sc.out.Cursor
	shown := state.UIDRanges(nil).With(ranges...)
	for _, u := range cur.Owed {
		if shown.Contains(u) {
			shown = shown.Without(state.UIDRange{First: u, Last: u})
		}
	}
	if len(shown) > 0 {
		cur.Unseen = cur.Unseen.With(shown...).Bounded()
	}
}

// recordSeen records that the server has shown u.
func (sc *scanner) recordSeen(u uint32) {
	cur := &sc.out.Cursor
	if cur.Unseen.Contains(u) {
		cur.Unseen = cur.Unseen.Without(state.UIDRange{First: u, Last: u}).Bounded()
	}
}

func (sc *scanner) owe(u uint32) {
	cur := &sc.out.Cursor
	sc.recordSeen(u)
	if i, found := slices.BinarySearch(cur.Owed, u); !found {
		cur.Owed = slices.Insert(cur.Owed, i, u)
	}
}

func (sc *scanner) settle(u uint32) {
	sc.recordSeen(u)
	sc.out.Cursor.Settle(u)
}

// recordMissing records that the server, asked for exactly u, did not show it. A second session must
// agree before u is passed.
func (sc *scanner) recordMissing(u uint32) {
	f, failing := sc.out.Cursor.Failures[u]
	switch {
	case failing && f.Missed:
		sc.settle(u)
		if sc.absent == nil {
			sc.absent = map[uint32]bool{}
		}
		sc.absent[u] = true
	case failing:
		f.Missed = true
		sc.setFailure(u, f)
	default:
		sc.settle(u)
		sc.recordUnseen(state.UIDRange{First: u, Last: u})
	}
}

// countFailure counts a failure of u, or of the first mail after it: the server broke off where
// that mail should have come. at is its INTERNALDATE, zero if unknown.
func (sc *scanner) countFailure(u uint32, at time.Time, reason string) {
	f := sc.out.Cursor.Failures[u]
	if f.Tries == 0 {
		f.After = sc.out.Cursor.Complete
	}
	if !at.IsZero() {
		f.After = at.UTC()
	}
	sc.setFailure(u, f.Again(sc.mailbox.now(), plain.OneLine(reason, 200)))
}

func (sc *scanner) setFailure(u uint32, f state.Failure) {
	cur := &sc.out.Cursor
	if cur.Failures == nil {
		cur.Failures = map[uint32]state.Failure{}
	}
	cur.Failures[u] = f
}

// fail counts a failure of u alone. It owes u, and moves the cursor past it.
func (sc *scanner) fail(u uint32, at time.Time, reason string) {
	sc.countFailure(u, at, reason)
	sc.owe(u)
	sc.passUpTo(u)
	f := sc.out.Cursor.Failures[u]
	sc.out.Failed = append(sc.out.Failed, FailedFetch{Key: sc.out.Cursor.Key(u), Reason: f.Reason, Next: f.Next})
}

// endFetches lists the mails whose fetch had failed before the scan and that are not owed any
// more.
func (sc *scanner) endFetches() {
	old, cur := sc.before, sc.out.Cursor
	another := old.Mailbox != cur.Mailbox || old.Validity != cur.Validity
	for _, u := range old.Owed {
		f, failing := old.Failures[u]
		if !failing || !another && slices.Contains(cur.Owed, u) {
			continue
		}
		sc.out.Ended = append(sc.out.Ended, EndedFetch{
			Key: old.Key(u), Failure: f, Gone: sc.absent[u], Another: another || sc.reset && u >= cur.Next,
		})
	}
}

// reasonOf returns the reason of a failure that ended the scan, in words.
func reasonOf(err error) string {
	if refusal(err) {
		return err.Error()
	}
	return "the connection was lost: " + err.Error()
}

// serverRefused reports whether the server, otherwise in good health, answered NO or BAD
// because of the message.
func serverRefused(err error) bool {
	return refusal(err) && !temporaryRefusal(err)
}

// mayBlameMail reports whether err, which ended the scan, may be due to the mail that was being
// fetched. An error about other data of the server never is.
func (sc *scanner) mayBlameMail(err error) bool {
	return sc.ctx.Err() == nil && !temporaryRefusal(err) && !errors.Is(err, answerError{}) && !errors.Is(err, errAnonymous)
}

// refusal reports whether err is the answer NO or BAD of a server that keeps serving us.
func refusal(err error) bool {
	var no *imap.Error
	return errors.As(err, &no) && no.Type != imap.StatusResponseTypeBye
}

// temporaryRefusal reports whether err is a refusal that is not about the message (RFC 5530).
func temporaryRefusal(err error) bool {
	var no *imap.Error
	if !errors.As(err, &no) {
		return false
	}
	switch no.Code {
	case imap.ResponseCodeUnavailable, imap.ResponseCodeInUse, imap.ResponseCodeLimit, imap.ResponseCodeOverQuota:
		return true
	}
	return false
}

// This file takes mails whose header came empty. A server that cannot parse a header may send
// an empty one, and a mail may begin with the empty line that ends its header. Anybody can send
// such a mail, so it must not count as withheld by the server.

// noteHeadless records a mail whose header came empty. The mail is owed until the end of this
// scan.
func (sc *scanner) noteHeadless(h head) {
	sc.owe(h.uid)
	sc.passUpTo(h.uid)
	sc.headless = append(sc.headless, h)
}

// takeHeadless takes the mails whose header came empty, and judges them by their beginning. It
// requests each mail alone, so that one that breaks the connection does not hold up the others.
func (sc *scanner) takeHeadless() error {
	for ; len(sc.headless) > 0; sc.headless = sc.headless[1:] {
		if sc.full() {
			return errLimit
		}
		h := sc.headless[0]
		began, err := sc.fetchBeginning(h.uid)
		switch {
		case err != nil && serverRefused(err):
			sc.fail(h.uid, h.at, reasonOf(err))
		case err != nil:
			if sc.mayBlameMail(err) {
				sc.fail(h.uid, h.at, reasonOf(err))
			}
			return err
		case len(began) == 0:
			sc.fail(h.uid, h.at, "the server sent no header")
		default:
			h.broken, h.raw = false, began
			sc.classify(&h)
			h.raw = nil
			if err := sc.take([]head{h}); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetchBeginning returns the beginning of the mail uid, up to the first empty line, or nil if the
// server does not show it.
func (sc *scanner) fetchBeginning(uid uint32) (header []byte, err error) {
	section := &imap.FetchItemBodySection{Peek: true, Partial: &imap.SectionPartial{Size: message.MaxHeader}}
	_, err = sc.heads(uidSet([]uint32{uid}), message.MaxHeader, section, func(h *head) {
		if h.uid == uid && !h.broken {
			header, _ = message.CutHeader(bufio.NewReader(bytes.NewReader(h.raw))) // reading from memory fails only at the end
		}
	})
	return header, err
}

// ErrNotThere reports that the server's answer contained no mail.
var ErrNotThere = errors.New("no such mail in the mailbox")

// UID returns the UID of the mail under key. ok is false if the key belongs to another mailbox,
// or to this one before it was renumbered.
func (s *Session) UID(key string) (uid uint32, ok bool) {
	return state.Cursor{Mailbox: s.mailbox.ID(), Validity: s.uidValidity}.UID(key)
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
	result := ErrNotThere
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
		for item := msg.Next(); item != nil; item = msg.Next() {
			body, ok := item.(imapclient.FetchItemDataBodySection)
			if !ok || body.Literal == nil || result != ErrNotThere {
				continue
			}
			raw, err := s.literal(uid, body.Literal, maxLiteral)
			if err == nil {
				result = keep(&wholeReader{countingReader: raw, size: body.Literal.Size()})
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
	return result
}
