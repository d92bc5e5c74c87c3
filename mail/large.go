package mail

import (
	"context"
	"errors"
	"slices"

	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// This file handles large mail. A scan only owes it, so that other mail does not wait for it.
// FetchLarge fetches it separately (docs/design.md, "Large mail").

// largeMail is the size, in bytes, above which a mail is large. It also limits the bytes
// fetched with one command.
const largeMail = 1 << 20

// large returns the size above which a mail is left to FetchLarge.
func (m Mailbox) large() int64 {
	if m.Large > 0 {
		return m.Large
	}
	return largeMail
}

// ErrOtherMailbox is the error of FetchLarge for a cursor of another mailbox, or of
// this one before it was renumbered. The next scan finds the mail again.
var ErrOtherMailbox = errors.New("the mailbox is another one, or was renumbered")

// FetchLarge takes the mail uid of cur.Large, with the judgement and the errors of Scan. The
// result, including its cursor, covers only this mail.
func (s *Session) FetchLarge(ctx context.Context, cur state.Cursor, uid uint32, f trust.Filter, keep Keep) (Scan, error) {
	if cur.Mailbox != s.mailbox.ID() || cur.Validity != s.uidValidity {
		return Scan{Cursor: cur}, ErrOtherMailbox
	}
	alone := state.Cursor{
		Mailbox: cur.Mailbox, Validity: cur.Validity, Next: cur.Next, Complete: cur.Complete,
		Owed: []uint32{uid}, Large: []uint32{uid},
	}
	if failure, failing := cur.Failures[uid]; failing {
		alone.Failures = map[uint32]state.Failure{uid: failure}
	}
	sc := s.scanner(ctx, alone, f, 1, keep)
	sc.apart = true
	return sc.scan(func() error { return sc.takeUIDs([]uint32{uid}) })
}

// leaves reports whether h, a mail to keep, is left to FetchLarge.
func (sc *scanner) leaves(h *head) bool {
	return !sc.apart && h.size > sc.mailbox.large() && !sc.tooBig(h.size)
}

// oweLarge owes u, and leaves it to FetchLarge.
func (sc *scanner) oweLarge(u uint32) {
	sc.owe(u)
	cur := &sc.out.Cursor
	if i, found := slices.BinarySearch(cur.Large, u); !found {
		cur.Large = slices.Insert(cur.Large, i, u)
	}
}

// worthReading returns how many bytes of a literal of a mail to allow time for. A scan must not
// wait long for a mail that is larger than its server reported.
func (sc *scanner) worthReading(literal int64) int64 {
	most := sc.filter.MaxSize
	if most <= 0 {
		most = maxLiteral
	}
	if !sc.apart {
		most = min(most, 2*sc.mailbox.large())
	}
	return min(literal, most)
}
