package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

const (
	headerChunk = 500  // headers requested at once
	searchAbove = 1000 // with more new UIDs than this, the server is asked to search
	maxBeyond   = 100  // mails beyond the room that a scan lists one by one
	bodyGroup   = 50   // bodies requested at once
)

// Message is one mail for this agent that was kept.
type Message struct {
	Key    string    // mail:<Mailbox.ID>.<uidvalidity>.<uid>
	UID    uint32    //
	At     time.Time // INTERNALDATE, by which messages are ordered; never the Date field
	Size   int64     // RFC822.SIZE
	Seen   bool      // \Seen was set: somebody had opened it
	Header message.Header

	// Answered is the flag \Answered, which we and mail programs set on a mail that was answered.
	// CallsOthers reports whether the subject calls other agents, so that \Answered may be theirs.
	Answered, CallsOthers bool

	// Before reports whether the mail was in the mailbox at the first scan after a restore: it may
	// have been answered already.
	Before bool

	// Digest is the same for a copy of the mail under another key. For a proved mail it is a
	// hash of the signed content, otherwise the Message-ID and a hash of the header. Without a
	// Message-ID, it has time and size instead. OldDigest is the digest that earlier versions
	// gave a proved mail.
	Digest, OldDigest string

	// Gate is "" for mail that may be accepted, otherwise the gate that rejected it. Reason is
	// the evidence.
	Gate, Reason string

	// Ask reports whether only a proof of the sender is missing and the operator may be asked
	// for it. Gate is then GateTrust, which a token lifts.
	Ask bool

	// Doubtful reports whether the sender is proved but the mail has another possible reading.
	// Gate is then GateTrust, and the operator is to be asked.
	Doubtful bool

	// Nameless reports whether the whole mail is one file whose name is not signed.
	Nameless bool
}

// Keep stores the raw bytes of a mail for this agent, including one that a gate rejected. raw
// is the whole mail, or only its header if Gate is GateSize. Keep need not read all of it. An
// error of Keep ends the scan, and the cursor stays before that mail.
type Keep func(m *Message, raw io.Reader) error

// Scan is the result of one scan of the mailbox.
type Scan struct {
	Cursor   state.Cursor     // to be made durable in one commit with Messages
	Messages []Message        // for this agent, all kept, by ascending UID
	Beyond   []Message        // rejected, and refused by Room: not fetched, not kept; the first maxBeyond
	Further  map[string]int   // number of further such mails, by gate
	Returned []trust.Returned // the statements of delivery reports about our mail
	Uncalled int              // number of mails of the operator to this agent's address that call no agent
	LastOne  time.Time        // arrival of the last of these
	Forged   int              // number of reports about mail that only looks like ours
	Rest     bool             // more mail may wait: the limit or Mailbox.Until was reached

	Failed []FailedFetch // in this scan; each is retried
	Ended  []EndedFetch  // of mails whose fetch had failed in an earlier scan

	Swept    *Sweep // nil without a sweep
	SweepErr error  // the server refused the search of the sweep
}

// FailedFetch is a mail that the server did not deliver in this scan.
type FailedFetch struct {
	Key    string
	Reason string
	Next   time.Time // time of the next try
}

// EndedFetch is a mail whose fetch had failed and that is not owed any more: it came, it is
// Gone from the mailbox, or its UID lost its meaning because the mailbox is Another one or was
// renumbered.
type EndedFetch struct {
	Key           string
	Failure       state.Failure // before the scan
	Gone, Another bool
}

// Scan finds the mail for this agent that cur has not passed and hands each mail to keep,
// including those that a gate rejects. It accepts at most limit mails (docs/protocol.md, "Keys
// and the cursor").
//
// A cursor of another mailbox, or an empty one, starts with a baseline: UIDNEXT, and the
// operator's mails that are unseen now. These are owed from then on, even if their flags
// change. Later scans take everything from cur.Next on, seen or not.
//
// If UIDVALIDITY has changed, or was lost with the state, Scan takes everything since the day
// before cur.Complete. The caller drops the mails that it already has, by Digest.
//
// At the limit the cursor stays just after the last mail taken. Rejected mail does not count
// against the limit: a scan goes through forged mail while it has time, so that forged mail
// does not hold up the rest. To judge a mail, Scan fetches only its header if the header is
// enough.
//
// A mail that cannot be fetched while others can is owed, and is retried after all others, at
// growing intervals (state.Failure). A mail whose sender cannot be proved for now, because no
// DNS server answers, is owed without counting a try. Scan takes the rest, and then returns an
// error.
//
// A mail that is to be kept and is larger than Mailbox.Large is only owed. Scan adds it to
// Cursor.Large, for FetchLarge.
//
// A UID that no answer shows goes into Cursor.Unseen. It is passed for good if the next
// session, asked for exactly that UID, does not show it either.
//
// With an error, Scan still returns the mails kept before it, and a Cursor that matches them.
// Complete moves only when the only mails still owed are those whose fetch has failed. A
// session sees the mailbox as it was when it was opened.
//
// After a restore (Cursor.Restored) Scan marks the mail that was in the mailbox at the first scan, in
// Message.Before, until all of it has been read.
func (s *Session) Scan(ctx context.Context, cur state.Cursor, f trust.Filter, limit int, keep Keep) (Scan, error) {
	sc := s.scanner(ctx, cur, f, limit, keep)
	return sc.scan(sc.run)
}

func (s *Session) scanner(ctx context.Context, cur state.Cursor, f trust.Filter, limit int, keep Keep) *scanner {
	sc := scanner{Session: s, ctx: ctx, judge: s.mailbox.NewJudge(f), keep: keep, left: limit, before: cur.Clone()}
	sc.judge.late = sc.late
	sc.judge.hold = func() func() { // the time for the proof is not the server's fault
		sc.conn.paced.pause()
		return sc.conn.paced.resume
	}
	sc.out.Cursor = cur.Clone()
	return &sc
}

// scan calls run and returns the result of the scan.
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
	order.Sort(sc.out.Messages, func(a, b Message) int { return cmp.Compare(a.UID, b.UID) })
	if err != nil {
		return sc.out, fmt.Errorf("scan %s: %w", sc.mailbox.name(), cause(sc.ctx, err))
	}
	return sc.out, nil
}

// full reports whether the scan may take no more mail.
func (sc *scanner) full() bool { return sc.left <= 0 || sc.late() }

// late reports whether the scan may start no more work.
func (sc *scanner) late() bool {
	return !sc.mailbox.Until.IsZero() && time.Now().After(sc.mailbox.Until)
}

// errLimit ends a scan that may take no more mail.
var errLimit = errors.New("limit reached")

// scanner is one scan. At every moment out.Cursor matches out.Messages.
type scanner struct {
	*Session // sees the mailbox as it was at SELECT
	ctx      context.Context
	judge    *Judge
	keep     Keep
	left     int  // mails that may still be accepted
	apart    bool // this is FetchLarge
	before   state.Cursor
	reset    bool            // this scan has set the cursor to the end of the mailbox
	absent   map[uint32]bool // UIDs that two sessions have not shown
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
	if err := sc.placeRestored(); err != nil {
		return err
	}
	unseen := sc.out.Cursor.Unseen // the next session asks for the UIDs that this one does not show
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
	// Mail that failed earlier comes last, one at a time. If it breaks the connection again, no
	// other mail is lost.
	for _, u := range append(failing, fresh...) {
		if err := sc.takeUIDs([]uint32{u}); err != nil {
			return err
		}
	}
	if err := sc.takeHeadless(); err != nil {
		return err
	}
	sc.markComplete()
	sc.endRestored()
	return sc.takeReports()
}

// markComplete notes that the mailbox was read to its end.
func (sc *scanner) markComplete() {
	cur := &sc.out.Cursor
	waits := func(u uint32) bool { _, failing := cur.Failures[u]; return !failing }
	if len(cur.Unseen) == 0 && !slices.ContainsFunc(cur.Owed, waits) {
		cur.Complete = sc.mailbox.now().UTC()
	}
	// The remaining suspicions were wrong: the mail is not for us or does not exist.
	for u := range cur.Failures {
		if !slices.Contains(cur.Owed, u) && !cur.Unseen.Contains(u) {
			delete(cur.Failures, u)
		}
	}
}
