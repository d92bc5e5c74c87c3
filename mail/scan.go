package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/state"
)

const (
	headerChunk = 500  // headers asked for at once
	searchAbove = 1000 // new UIDs from which the server is asked to preselect
	bodyGroup   = 50   // bodies asked for at once
	maxTries    = 3    // failures of one UID alone, then it is passed
)

// Message is one mail for this agent, kept.
type Message struct {
	Key    string    // mail:<Box.ID>.<uidvalidity>.<uid>
	UID    uint32    //
	At     time.Time // INTERNALDATE, by which messages are ordered; never the Date field
	Size   int64     // RFC822.SIZE
	Seen   bool      // somebody had opened it
	Header message.Header

	// Digest recognises a copy of the mail under another key: its Message-ID
	// and its header, hashed. Without a Message-ID, time and size stand in.
	Digest string

	// Gate is "" for mail that may come in, else the gate that refused it, with
	// the evidence in Reason.
	Gate, Reason string

	// Ask: all that is missing is a proof of the sender, and the operator may be
	// asked. The gate is GateTrust, which a token lifts.
	Ask bool
}

// Keep stores the raw bytes of a mail for this agent, refused ones included:
// the whole mail, or its header only when Gate is GateSize. It may read less
// than all. Its error ends the Look; the cursor then stays before that mail.
type Keep func(m *Message, raw io.Reader) error

// Scan is what one look at the mailbox found.
type Scan struct {
	Cursor   state.Cursor // to be made durable in one commit with Messages
	Messages []Message    // for this agent, all kept, by ascending UID
	Failed   []uint32     // given up: they broke alone maxTries times; to be told
	Rest     bool         // more may wait: the limit was reached, or Box.Until
}

// Scan finds the mail for this agent that cur has not seen, at most limit of
// it, refused ones included, and hands each to keep (DESIGN 7).
//
// A cursor of another mailbox, or none, is a baseline: UIDNEXT, and the mails
// of the operator that are unread now, which are owed from then on whatever
// their flags become. Later everything from cur.Next on is taken, read or not.
// When UIDVALIDITY changed, or is lost (recovered state), everything since the
// day before cur.Complete is; the caller drops what it knows by Digest. At the
// limit the cursor waits just behind the last mail taken. What a gate refuses
// has a limit of its own, mostRefused, so that forged mail does not keep the rest
// waiting.
//
// A mail that cannot be fetched while the rest can is owed and tried again,
// after all others; the third failure puts it into Failed. One whose sender
// cannot be proved for now, since no DNS server answers, is owed without a try
// counted; the rest is taken, and then Look gives an error. With an error Look
// still returns what was kept before, and its Cursor is right for that.
// Complete moves only when nothing is owed any more. A session sees the mailbox
// as it was when it was opened.
func (s *Session) Scan(ctx context.Context, cur state.Cursor, f Filter, limit int, keep Keep) (Scan, error) {
	stop := closeOnDone(ctx, s.conn)
	defer stop()

	sc := scanner{Session: s, ctx: ctx, filter: f, keep: keep, left: limit}
	sc.out.Cursor = cur
	sc.out.Cursor.Owed = slices.Clone(cur.Owed)
	sc.out.Cursor.Tries = maps.Clone(cur.Tries)
	err := sc.run()
	if errors.Is(err, errLimit) {
		sc.out.Rest, err = true, nil
	}
	if err == nil {
		err = sc.unproven
	}
	slices.SortFunc(sc.out.Messages, func(a, b Message) int { return cmp.Compare(a.UID, b.UID) })
	if err != nil {
		return sc.out, fmt.Errorf("look into %s: %w", s.mailbox.name(), cause(ctx, err))
	}
	return sc.out, nil
}

// full says whether nothing more may be taken.
func (sc *scanner) full() bool { return sc.left <= 0 || sc.rejected >= maxRejected || sc.late() }

// maxRejected is how many mails that a gate refuses one look takes.
const maxRejected = 1000

// late says whether nothing more may be begun.
func (sc *scanner) late() bool {
	return !sc.mailbox.Until.IsZero() && time.Now().After(sc.mailbox.Until)
}

// errLimit ends a look that may take no more.
var errLimit = errors.New("limit reached")

// scanner is one Look. out.Cursor is right for out.Messages at every moment.
type scanner struct {
	*Session // sees the mailbox as it was at SELECT
	ctx      context.Context
	filter   Filter
	keep     Keep
	left     int   // how many more may come in
	rejected int   // how many a gate refused
	unproven error // the first mail that is owed until its sender can be proved
	out      Scan
}

func (sc *scanner) run() error {
	if err := sc.placeCursor(); err != nil {
		return err
	}
	cur := &sc.out.Cursor
	var owed, suspects []uint32
	for _, u := range cur.Owed {
		if cur.Tries[u] > 0 {
			suspects = append(suspects, u)
		} else {
			owed = append(owed, u)
		}
	}
	if err := sc.takeUIDs(owed); err != nil {
		return err
	}
	fresh, err := sc.scanNew()
	if err != nil {
		return err
	}
	// What failed before comes last and alone: if it breaks the connection
	// again, it breaks nothing else.
	for _, u := range append(suspects, fresh...) {
		if err := sc.takeUIDs([]uint32{u}); err != nil {
			return err
		}
	}
	if len(cur.Owed) == 0 {
		cur.Complete = sc.mailbox.now().UTC()
		cur.Tries = nil
	}
	return nil
}
