package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/state"
)

const (
	headerChunk = 500  // headers asked for at once
	searchAbove = 1000 // more new UIDs than this, and the server is asked to search
	maxBeyond   = 100  // mails beyond the room that a scan tells of one by one
	bodyGroup   = 50   // bodies asked for at once
	maxTries    = 3    // failures of one UID alone, after which it is given up
)

// Message is one mail for this agent that was kept.
type Message struct {
	Key    string    // mail:<Mailbox.ID>.<uidvalidity>.<uid>
	UID    uint32    //
	At     time.Time // INTERNALDATE, by which messages are ordered; never the Date field
	Size   int64     // RFC822.SIZE
	Seen   bool      // \Seen was set: somebody had opened it
	Header message.Header

	// Digest is the same for a copy of the mail under another key. Of a mail that
	// was proved it is a hash of what was signed, else the Message-ID and a hash of
	// the header. Without a Message-ID, it has time and size instead. OldDigest is
	// the digest that earlier versions gave a mail that was proved.
	Digest, OldDigest string

	// Gate is "" for mail that may come in, else the gate that rejected it.
	// Reason is the evidence.
	Gate, Reason string

	// Ask reports whether only a proof of the sender is missing, and the operator
	// may be asked for it. The gate is GateTrust, which a token lifts.
	Ask bool
}

// Keep stores the raw bytes of a mail for this agent, including one that a gate
// rejected. raw is the whole mail, or only its header if Gate is GateSize. Keep
// need not read all of it. An error of Keep ends the scan; the cursor then
// stays before that mail.
type Keep func(m *Message, raw io.Reader) error

// Scan is the result of one scan of the mailbox.
type Scan struct {
	Cursor   state.Cursor   // to be made durable in one commit with Messages
	Messages []Message      // for this agent, all kept, by ascending UID
	Beyond   []Message      // rejected, and without Room: not fetched, not kept; the first maxBeyond
	Further  map[string]int // how many more of those there were, by gate
	Failed   []uint32       // given up after maxTries failures; the operator is to be informed
	Rest     bool           // more may wait: the limit or Mailbox.Until was reached
}

// Scan finds the mail for this agent that cur has not passed and hands each one
// to keep, including those that a gate rejects. At most limit mails come in
// (docs/design.md, "Keys and the cursor").
//
// A cursor of another mailbox, or an empty one, starts with a baseline:
// UIDNEXT, and the mails of the operator that are unseen now. These are owed
// from then on, whatever their flags become. Later everything from cur.Next on
// is taken, seen or not.
//
// If UIDVALIDITY has changed, or was lost with the state, everything since the
// day before cur.Complete is taken. The caller drops the mails that it already
// has, by Digest.
//
// At the limit the cursor stays just behind the last mail taken. What a gate
// rejects does not count against the limit: a scan goes through forged mail as
// long as there is time, so that it does not keep the rest waiting. Only the
// header of a mail is fetched to judge it, as far as the header is enough.
//
// A mail that cannot be fetched while the rest can is owed, and is tried again
// after all others. The third failure puts it into Failed. A mail whose sender
// cannot be proved for now, because no DNS server answers, is owed without
// counting a try; the rest is taken, and then Scan returns an error.
//
// With an error, Scan still returns what was kept before it, and the Cursor is
// right for that. Complete moves only when nothing is owed any more. A session
// sees the mailbox as it was when it was opened.
func (s *Session) Scan(ctx context.Context, cur state.Cursor, f Filter, limit int, keep Keep) (Scan, error) {
	stop := closeOnDone(ctx, s.conn)
	defer stop()

	f.keys = &knownKeys{}
	sc := scanner{Session: s, ctx: ctx, filter: f, keep: keep, left: limit}
	sc.out.Cursor = cur.Clone()
	err := sc.run()
	if errors.Is(err, errLimit) {
		sc.out.Rest, err = true, nil
	}
	err = s.conn.failure(err)
	if err == nil {
		err = sc.unproven
	}
	slices.SortFunc(sc.out.Messages, func(a, b Message) int { return cmp.Compare(a.UID, b.UID) })
	if err != nil {
		return sc.out, fmt.Errorf("scan %s: %w", s.mailbox.name(), cause(ctx, err))
	}
	return sc.out, nil
}

// full reports whether the scan may take nothing more.
func (sc *scanner) full() bool { return sc.left <= 0 || sc.late() }

// late reports whether the scan may start nothing more.
func (sc *scanner) late() bool {
	return !sc.mailbox.Until.IsZero() && time.Now().After(sc.mailbox.Until)
}

// errLimit ends a scan that may take no more.
var errLimit = errors.New("limit reached")

// scanner is one scan. At every moment out.Cursor is right for out.Messages.
type scanner struct {
	*Session // sees the mailbox as it was at SELECT
	ctx      context.Context
	filter   Filter
	keep     Keep
	left     int   // mails that may still come in
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
		if cur.Failures[u].Tries > 0 {
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
	// What failed earlier comes last and alone. If it breaks the connection
	// again, nothing else is lost.
	for _, u := range append(suspects, fresh...) {
		if err := sc.takeUIDs([]uint32{u}); err != nil {
			return err
		}
	}
	if len(cur.Owed) == 0 {
		cur.Complete = sc.mailbox.now().UTC()
		cur.Failures = nil
	}
	return nil
}
