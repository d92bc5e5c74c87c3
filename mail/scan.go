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
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

const (
	headerChunk = 500  // headers asked for at once
	searchAbove = 1000 // more new UIDs than this, and the server is asked to search
	maxBeyond   = 100  // mails beyond the room that a scan tells of one by one
	bodyGroup   = 50   // bodies asked for at once
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

	// Doubtful reports whether the sender is proved, and the mail could be read in
	// another way as well. The gate is GateTrust, and the operator is to be asked.
	Doubtful bool

	// Nameless reports whether the whole mail is one file whose name is not signed.
	Nameless bool
}

// Keep stores the raw bytes of a mail for this agent, including one that a gate
// rejected. raw is the whole mail, or only its header if Gate is GateSize. Keep
// need not read all of it. An error of Keep ends the scan; the cursor then
// stays before that mail.
type Keep func(m *Message, raw io.Reader) error

// Scan is the result of one scan of the mailbox.
type Scan struct {
	Cursor   state.Cursor     // to be made durable in one commit with Messages
	Messages []Message        // for this agent, all kept, by ascending UID
	Beyond   []Message        // rejected, and without Room: not fetched, not kept; the first maxBeyond
	Further  map[string]int   // how many more of those there were, by gate
	Returned []trust.Returned // what delivery reports say about mail of ours
	Uncalled int              // how many mails of the operator to this agent's address call no agent
	LastOne  time.Time        // when the last of these came
	Forged   int              // how many reports were about mail that only looks like ours
	Rest     bool             // more may wait: the limit or Mailbox.Until was reached

	Failed []FailedFetch // in this scan; each is tried again
	Ended  []EndedFetch  // of mails whose fetch had failed in an earlier scan

	Swept    *Sweep // nil if nothing was swept
	SweepErr error  // the server refused the search of the sweep
}

// FailedFetch is a mail that the server did not hand out in this scan.
type FailedFetch struct {
	Key    string
	Reason string
	Next   time.Time // when it is tried again
}

// EndedFetch is a mail whose fetch had failed, and that is not owed any more: it
// came, or it is Gone from the mailbox, or its UID means nothing any more because
// the mailbox is Another one or was renumbered.
type EndedFetch struct {
	Key           string
	Failure       state.Failure // as it was before the scan
	Gone, Another bool
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
// after all others, with pauses that grow (state.Failure). A mail whose sender
// cannot be proved for now, because no DNS server answers, is owed without
// counting a try; the rest is taken, and then Scan returns an error.
//
// A mail that is to be kept and is larger than Mailbox.Large is only owed, and
// goes into Cursor.Large: it is for FetchLarge.
//
// A UID that no answer shows goes into Cursor.Unseen. It is passed for good when
// the next session, asked for exactly it, does not show it either.
//
// With an error, Scan still returns what was kept before it, and the Cursor is
// right for that. Complete moves only when nothing is owed any more but mails
// whose fetch has failed. A session sees the mailbox as it was when it was opened.
func (s *Session) Scan(ctx context.Context, cur state.Cursor, f trust.Filter, limit int, keep Keep) (Scan, error) {
	sc := s.scanner(ctx, cur, f, limit, keep)
	return sc.scan(sc.run)
}

func (s *Session) scanner(ctx context.Context, cur state.Cursor, f trust.Filter, limit int, keep Keep) *scanner {
	f = f.WithKeyCache()
	sc := scanner{Session: s, ctx: ctx, filter: f, keep: keep, left: limit, before: cur.Clone()}
	sc.out.Cursor = cur.Clone()
	return &sc
}

// scan calls run and returns what came of it.
func (sc *scanner) scan(run func() error) (Scan, error) {
	stop := closeOnDone(sc.ctx, sc.conn)
	defer stop()
	err := run()
	if errors.Is(err, errLimit) {
		sc.out.Rest, err = true, nil
	}
	err = sc.conn.failure(err)
	if err == nil {
		err = sc.unproven
	}
	sc.endFetches()
	slices.SortFunc(sc.out.Messages, func(a, b Message) int { return cmp.Compare(a.UID, b.UID) })
	if err != nil {
		return sc.out, fmt.Errorf("scan %s: %w", sc.mailbox.name(), cause(sc.ctx, err))
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
	filter   trust.Filter
	keep     Keep
	left     int  // mails that may still come in
	apart    bool // this is FetchLarge
	before   state.Cursor
	reset    bool            // this scan has set the cursor to the end of the mailbox
	gone     map[uint32]bool // UIDs that two sessions have not shown
	sweeping bool
	headless []head // mails whose header came empty
	unproven error  // the first mail that is owed until its sender can be proved
	out      Scan
}

func (sc *scanner) run() error {
	if err := sc.ahead.err; err != nil {
		sc.blameAhead(err)
		return err
	}
	if err := sc.placeCursor(); err != nil {
		return err
	}
	unseen := sc.out.Cursor.Unseen // what this session does not show is for the next one
	owed, failing := sc.dueMail()
	if err := sc.takeUIDs(owed); err != nil {
		return err
	}
	if err := sc.lookAgain(unseen); err != nil {
		return err
	}
	if err := sc.rereadAgain(); err != nil {
		return err
	}
	fresh, err := sc.scanNew()
	if err != nil {
		return err
	}
	if err := sc.sweep(); err != nil {
		return err
	}
	if err := sc.takeHeadless(); err != nil {
		return err
	}
	// What failed earlier comes last and alone. If it breaks the connection
	// again, nothing else is lost.
	for _, u := range append(failing, fresh...) {
		if err := sc.takeUIDs([]uint32{u}); err != nil {
			return err
		}
	}
	if err := sc.takeHeadless(); err != nil {
		return err
	}
	sc.complete()
	return sc.takeReports()
}

// complete notes that the mailbox was read to its end.
func (sc *scanner) complete() {
	cur := &sc.out.Cursor
	waits := func(u uint32) bool { _, failing := cur.Failures[u]; return !failing }
	if len(cur.Unseen) == 0 && !slices.ContainsFunc(cur.Owed, waits) {
		cur.Complete = sc.mailbox.now().UTC()
	}
	// What was only suspected has turned out to be nobody's, or not there.
	for u := range cur.Failures {
		if !slices.Contains(cur.Owed, u) && !cur.Unseen.Contains(u) {
			delete(cur.Failures, u)
		}
	}
}
