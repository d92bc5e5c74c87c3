package mail

import (
	"errors"
	"slices"

	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// This file keeps account of the mails that a scan still owes, and of the mails
// that are to blame for a failure.

// pass takes u off the owed mails and moves the cursor behind it.
func (sc *scanner) pass(u uint32) {
	sc.disown(u)
	sc.passUpTo(u)
}

func (sc *scanner) passUpTo(u uint32) {
	if u >= sc.out.Cursor.Next {
		sc.out.Cursor.Next = u + 1
	}
}

func (sc *scanner) owe(u uint32) {
	cur := &sc.out.Cursor
	if i, found := slices.BinarySearch(cur.Owed, u); !found {
		cur.Owed = slices.Insert(cur.Owed, i, u)
	}
}

func (sc *scanner) disown(u uint32) {
	cur := &sc.out.Cursor
	if i, found := slices.BinarySearch(cur.Owed, u); found {
		cur.Owed = slices.Delete(cur.Owed, i, i+1)
	}
	delete(cur.Failures, u)
}

// suspect counts a try: the connection broke where u, or the first mail behind
// it, should have come.
func (sc *scanner) suspect(u uint32) {
	cur := &sc.out.Cursor
	if cur.Failures == nil {
		cur.Failures = map[uint32]state.Failure{}
	}
	cur.Failures[u] = cur.Failures[u].Again(sc.mailbox.now(), "")
}

// fail counts a failure of u alone and moves the cursor behind it. u is owed,
// or given up if it has failed maxTries times.
func (sc *scanner) fail(u uint32) {
	sc.suspect(u)
	sc.owe(u)
	if sc.out.Cursor.Failures[u].Tries >= maxTries {
		sc.disown(u)
		sc.out.Failed = append(sc.out.Failed, u)
	}
	sc.passUpTo(u)
}

// serverRefused reports whether the server, still in good health, answered NO
// or BAD because of the message.
func serverRefused(err error) bool {
	var no *imap.Error
	return errors.As(err, &no) && no.Type != imap.StatusResponseTypeBye && !temporaryRefusal(err)
}

// mayBlameMail reports whether err, which ended the scan, may be due to the
// mail that was being fetched. What a server says besides the mail never is.
func (sc *scanner) mayBlameMail(err error) bool {
	return sc.ctx.Err() == nil && !temporaryRefusal(err) && !errors.Is(err, answerError{})
}

// temporaryRefusal reports whether err is a refusal that says nothing about the
// message (RFC 5530).
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
