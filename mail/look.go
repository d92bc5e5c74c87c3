package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
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
	Header Header

	// Digest recognises a copy of the mail under another key: its Message-ID
	// and its header, hashed. Without a Message-ID, time and size stand in.
	Digest string

	// Gate is "" for mail that may come in, else the gate that refused it, with
	// the evidence in Reason.
	Gate, Reason string
}

// Keep stores the raw bytes of a mail for this agent, refused ones included:
// the whole mail, or its header only when Gate is GateSize. It may read less
// than all. Its error ends the Look; the cursor then stays before that mail.
type Keep func(m *Message, raw io.Reader) error

// Look is what one look at the mailbox found.
type Look struct {
	Cursor   state.Cursor // to be made durable in one commit with Messages
	Messages []Message    // for this agent, all kept, by ascending UID
	Failed   []uint32     // given up: they broke alone maxTries times; to be told
	Rest     bool         // more may wait: the limit was reached, or Box.Until
}

// Look finds the mail for this agent that cur has not seen, at most limit of
// it, refused ones included, and hands each to keep (DESIGN 7).
//
// A cursor of another mailbox, or none, is a baseline: UIDNEXT, and the mails
// of the operator that are unread now, which are owed from then on whatever
// their flags become. Later everything from cur.Next on is taken, read or not.
// When UIDVALIDITY changed, or is lost (recovered state), everything since the
// day before cur.Complete is; the caller drops what it knows by Digest. At the
// limit the cursor waits just behind the last mail taken.
//
// A mail that cannot be fetched while the rest can is owed and tried again,
// after all others; the third failure puts it into Failed. One whose sender
// cannot be proved for now, since no DNS server answers, is owed without a try
// counted; the rest is taken, and then Look gives an error. With an error Look
// still returns what was kept before, and its Cursor is right for that.
// Complete moves only when nothing is owed any more. A session sees the mailbox
// as it was when it was opened.
func (s *Session) Look(ctx context.Context, cur state.Cursor, f Filter, limit int, keep Keep) (Look, error) {
	stop := closeOnDone(ctx, s.conn)
	defer stop()

	l := looker{Session: s, ctx: ctx, filter: f, keep: keep, left: limit}
	l.out.Cursor = cur
	l.out.Cursor.Owed = slices.Clone(cur.Owed)
	l.out.Cursor.Tries = maps.Clone(cur.Tries)
	err := l.run()
	if errors.Is(err, errLimit) {
		l.out.Rest, err = true, nil
	}
	if err == nil {
		err = l.unproven
	}
	slices.SortFunc(l.out.Messages, func(a, b Message) int { return cmp.Compare(a.UID, b.UID) })
	if err != nil {
		return l.out, fmt.Errorf("look into %s: %w", s.box.mailbox(), because(ctx, err))
	}
	return l.out, nil
}

// full says whether nothing more may be taken.
func (l *looker) full() bool { return l.left <= 0 || l.late() }

// late says whether nothing more may be begun.
func (l *looker) late() bool { return !l.box.Until.IsZero() && time.Now().After(l.box.Until) }

// errLimit ends a look that may take no more.
var errLimit = errors.New("limit reached")

// looker is one Look. out.Cursor is right for out.Messages at every moment.
type looker struct {
	*Session // sees the mailbox as it was at SELECT
	ctx      context.Context
	filter   Filter
	keep     Keep
	left     int   // how many more may be taken
	unproven error // the first mail that is owed until its sender can be proved
	out      Look
}

func (l *looker) run() error {
	if err := l.place(); err != nil {
		return err
	}
	cur := &l.out.Cursor
	var owed, suspects []uint32
	for _, u := range cur.Owed {
		if cur.Tries[u] > 0 {
			suspects = append(suspects, u)
		} else {
			owed = append(owed, u)
		}
	}
	if err := l.list(owed); err != nil {
		return err
	}
	fresh, err := l.fresh()
	if err != nil {
		return err
	}
	// What failed before comes last and alone: if it breaks the connection
	// again, it breaks nothing else.
	for _, u := range append(suspects, fresh...) {
		if err := l.list([]uint32{u}); err != nil {
			return err
		}
	}
	if len(cur.Owed) == 0 {
		cur.Complete = l.box.now().UTC()
		cur.Tries = nil
	}
	return nil
}

// place makes the cursor one of this mailbox.
func (l *looker) place() error {
	cur, id := &l.out.Cursor, l.box.ID()
	ours := cur.Mailbox == id || cur.Mailbox == "" && !cur.Complete.IsZero()
	// UIDNEXT never falls within one UIDVALIDITY. A mailbox restored from a
	// backup does it all the same, and gives old numbers to new mail.
	fell := l.next != 0 && l.next < cur.Next
	switch {
	case ours && cur.Validity == l.validity && cur.Next > 0 && !fell:
		return nil
	case ours && !cur.Complete.IsZero():
		return l.restart(imap.SearchCriteria{Since: cur.Complete.UTC().AddDate(0, 0, -1)}, cur.Complete)
	default:
		return l.restart(imap.SearchCriteria{NotFlag: []imap.Flag{imap.FlagSeen}}, time.Time{})
	}
}

// restart sets the cursor to the mailbox's end and owes what c finds below it.
func (l *looker) restart(c imap.SearchCriteria, complete time.Time) error {
	next := l.next
	if next == 0 {
		last, err := l.search(imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: 0, Stop: 0}}}})
		if err != nil {
			return err
		}
		next = 1
		if len(last) > 0 {
			next = last[len(last)-1] + 1
		}
	}
	found, err := l.search(l.fromOperator(c))
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(u uint32) bool { return u >= next })
	l.out.Cursor = state.Cursor{
		Mailbox: l.box.ID(), Validity: l.validity, Next: next, Owed: found, Complete: complete,
	}
	return nil
}

// fromOperator narrows c to mail that may be the operator's. The server
// compares parts of the field only, so that this is never more than a filter
// ahead of the real one; addresses it may not be able to compare lift it.
func (l *looker) fromOperator(c imap.SearchCriteria) imap.SearchCriteria {
	var any []imap.SearchCriteria
	for _, op := range l.filter.Operators {
		if !isASCII(op) || strings.ContainsAny(op, "\r\n\x00") {
			return c
		}
		any = append(any, imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: "From", Value: op}}})
	}
	if len(any) == 0 {
		return c
	}
	from := any[0]
	for _, a := range any[1:] {
		from = imap.SearchCriteria{Or: [][2]imap.SearchCriteria{{from, a}}}
	}
	c.And(&from)
	return c
}

// search gives the UIDs that c finds, ascending.
func (l *looker) search(c imap.SearchCriteria) ([]uint32, error) {
	l.box.phase(l.conn)
	data, err := l.client.UIDSearch(&c, nil).Wait()
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	// AllUIDs would panic on a server that answers with a "*".
	set, _ := data.All.(imap.UIDSet)
	nums, ok := set.Nums()
	if !ok {
		return nil, errors.New("search: the server answered with no UIDs")
	}
	uids := make([]uint32, len(nums))
	for i, u := range nums {
		uids[i] = uint32(u)
	}
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

// fresh takes what is new from cursor.Next on. It returns the UIDs that are
// under suspicion from an earlier look and were only put among the owed.
func (l *looker) fresh() (suspects []uint32, err error) {
	cur := &l.out.Cursor
	if l.next != 0 && l.next <= cur.Next {
		return nil, nil
	}
	if l.full() {
		return nil, errLimit
	}
	suspected := slices.ContainsFunc(slices.Collect(maps.Keys(cur.Tries)), func(u uint32) bool { return u >= cur.Next })
	if !suspected && (l.next == 0 || l.next-cur.Next <= searchAbove) {
		return nil, l.span(cur.Next, l.next)
	}
	return l.preselected(l.next)
}

// span takes from first up to but without end, or up to the mailbox's end when
// that is 0. Which UIDs exist is not known beforehand.
func (l *looker) span(first, end uint32) error {
	stop := imap.UID(0) // "*"
	if end != 0 {
		stop = imap.UID(end - 1)
	}
	heads, err := l.headers(imap.UIDSet{imap.UIDRange{Start: imap.UID(first), Stop: stop}})
	// "n:*" returns the last message even if that is below n. go-imap drops it;
	// the cursor does not rely on that.
	heads = slices.DeleteFunc(heads, func(h head) bool { return h.uid < first })
	if err != nil && refused(err) {
		_, err := l.preselected(end)
		return err
	}
	if err != nil {
		at := first
		if len(heads) > 0 {
			at = heads[len(heads)-1].uid + 1
		}
		if l.blames(err) {
			l.suspect(at)
		}
		return err
	}
	if err := l.take(heads); err != nil {
		return err
	}
	if end != 0 {
		l.out.Cursor.Next = end
	}
	return nil
}

// preselected takes what the server finds from the cursor on to be the
// operator's, leaving out what is under suspicion.
func (l *looker) preselected(end uint32) (suspects []uint32, err error) {
	cur := &l.out.Cursor
	stop := imap.UID(0)
	if end != 0 {
		stop = imap.UID(end - 1)
	}
	found, err := l.search(l.fromOperator(imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: imap.UID(cur.Next), Stop: stop}}}}))
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(u uint32) bool { return u < cur.Next })
	var clear []uint32
	for _, u := range found {
		if slices.Contains(cur.Owed, u) {
			continue // its turn comes as such
		}
		if l.inherit(u) {
			l.owe(u) // before the cursor passes it
			suspects = append(suspects, u)
		} else {
			clear = append(clear, u)
		}
	}
	if err := l.list(clear); err != nil {
		return nil, err
	}
	if end != 0 {
		cur.Next = end
	} else if len(suspects) > 0 {
		cur.Next = max(cur.Next, suspects[len(suspects)-1]+1)
	}
	return suspects, nil
}

// inherit moves the tries noted for "the first UID from here on" to u, if u is
// the first that exists there.
func (l *looker) inherit(u uint32) bool {
	tries := l.out.Cursor.Tries
	n := 0
	for at, t := range tries {
		if at >= l.out.Cursor.Next && at <= u && !slices.Contains(l.out.Cursor.Owed, at) {
			n = max(n, t)
			delete(tries, at)
		}
	}
	if n > 0 {
		tries[u] = n
	}
	return n > 0
}

// list takes uids, which the server said to exist. One that has vanished is
// owed no longer.
func (l *looker) list(uids []uint32) error {
	for chunk := range slices.Chunk(uids, headerChunk) {
		if l.full() {
			return errLimit
		}
		heads, err := l.headers(uidSet(chunk))
		switch {
		case err != nil && refused(err) && len(chunk) > 1:
			// One of them is broken. Alone, each speaks for itself.
			for _, u := range chunk {
				if err := l.list([]uint32{u}); err != nil {
					return err
				}
			}
			continue
		case err != nil && refused(err):
			l.fail(chunk[0])
			continue
		case err != nil && len(chunk) == 1:
			if l.blames(err) {
				l.fail(chunk[0])
			}
			return err
		case err != nil && !l.blames(err):
			return err
		case err != nil:
			for _, u := range chunk {
				if !slices.ContainsFunc(heads, func(h head) bool { return h.uid == u }) {
					l.suspect(u)
					break
				}
			}
			return err
		}
		for _, u := range chunk {
			if !slices.ContainsFunc(heads, func(h head) bool { return h.uid == u }) {
				l.disown(u)
			}
		}
		if err := l.take(heads); err != nil {
			return err
		}
		for _, u := range chunk {
			l.passUpTo(u)
		}
	}
	return nil
}

// take judges heads, in their order, and keeps what is ours.
func (l *looker) take(heads []head) error {
	for i := range heads {
		l.judge(&heads[i])
	}
	for len(heads) > 0 {
		n, ours := l.group(heads)
		if n == 0 || len(ours) > 0 && l.late() {
			return errLimit
		}
		err := l.fetch(ours)
		l.settle(heads[:n], err == nil)
		if err != nil {
			return err
		}
		heads = heads[n:]
	}
	return nil
}

// group counts the heads to be settled together, and gives those whose bodies
// are to be fetched. A mail that is too big is alone, as only its header is.
func (l *looker) group(heads []head) (n int, ours []*head) {
	for n < len(heads) {
		h := &heads[n]
		if h.message != nil {
			if len(ours) == min(l.left, bodyGroup) || len(ours) > 0 && (l.tooBig(h.size) || l.tooBig(ours[0].size)) {
				break
			}
			ours = append(ours, h)
		}
		n++
	}
	return n, ours
}

// fetch keeps the bodies of hs. Where the server fails on some, each is tried
// alone, and fails alone.
func (l *looker) fetch(hs []*head) error {
	if len(hs) == 0 {
		return nil
	}
	err := l.bodies(hs)
	left := slices.DeleteFunc(slices.Clone(hs), func(h *head) bool { return h.settled })
	if err != nil && !refused(err) {
		var k *keepError
		if !errors.As(err, &k) && l.blames(err) {
			l.blame(left, err)
		}
		return err
	}
	if len(hs) == 1 && len(left) == 1 {
		h := left[0]
		h.settled = true // it is gone, unless
		if err != nil || h.answered {
			h.failed = true
			l.fail(h.uid)
		}
		return nil
	}
	for _, h := range left {
		if err := l.fetch([]*head{h}); err != nil {
			return err
		}
	}
	return nil
}

// blame counts the connection's end against the mail whose body was under way,
// or else the first that had not come.
func (l *looker) blame(left []*head, err error) {
	if len(left) == 0 {
		return
	}
	h := left[0]
	var torn *tornError
	if errors.As(err, &torn) {
		h = left[slices.IndexFunc(left, func(h *head) bool { return h.uid == torn.uid })]
	}
	h.settled, h.failed = true, true
	l.fail(h.uid)
}

// settle moves the cursor behind the last of heads that is settled, owing
// those before it that are not. If all went well it moves behind them all.
func (l *looker) settle(heads []head, all bool) {
	last := len(heads) - 1
	for !all && last >= 0 && !heads[last].settled {
		last--
	}
	for _, h := range heads[:last+1] {
		switch {
		case h.broken:
			l.fail(h.uid)
		case h.message == nil:
			l.pass(h.uid)
		case !h.settled || h.unproven:
			l.owe(h.uid)
			l.passUpTo(h.uid)
		case h.failed:
			l.passUpTo(h.uid)
		default:
			l.pass(h.uid)
		}
	}
}

// judge makes h's message, if it is for this agent.
func (l *looker) judge(h *head) {
	if h.broken {
		return
	}
	header := ParseHeader(h.raw)
	mine, gate, reason := l.filter.judge(header, h.size)
	if !mine {
		return
	}
	if h.at.IsZero() {
		h.at = l.box.now()
	}
	h.message = &Message{
		Key: fmt.Sprintf("mail:%s.%d.%d", l.box.ID(), l.validity, h.uid),
		UID: h.uid, At: h.at.UTC(), Size: h.size, Seen: h.seen, Header: header,
		Digest: digest(header, h.at, h.size), Gate: gate, Reason: reason,
	}
}

func digest(h Header, at time.Time, size int64) string {
	if h.MessageID == "" {
		return fmt.Sprintf("%d.%d+%s", at.Unix(), size, h.stable)
	}
	return h.MessageID + "+" + h.stable
}

// The cursor's moves.

// pass says that u is done with.
func (l *looker) pass(u uint32) {
	l.disown(u)
	l.passUpTo(u)
}

func (l *looker) passUpTo(u uint32) {
	if u >= l.out.Cursor.Next {
		l.out.Cursor.Next = u + 1
	}
}

func (l *looker) owe(u uint32) {
	cur := &l.out.Cursor
	if i, found := slices.BinarySearch(cur.Owed, u); !found {
		cur.Owed = slices.Insert(cur.Owed, i, u)
	}
}

func (l *looker) disown(u uint32) {
	cur := &l.out.Cursor
	if i, found := slices.BinarySearch(cur.Owed, u); found {
		cur.Owed = slices.Delete(cur.Owed, i, i+1)
	}
	delete(cur.Tries, u)
}

// suspect notes that the connection broke where u, or the first mail behind it,
// should have come.
func (l *looker) suspect(u uint32) {
	cur := &l.out.Cursor
	if cur.Tries == nil {
		cur.Tries = map[uint32]int{}
	}
	cur.Tries[u]++
}

// fail counts a failure of u alone and passes it: for now, or for good.
func (l *looker) fail(u uint32) {
	l.suspect(u)
	l.owe(u)
	if l.out.Cursor.Tries[u] >= maxTries {
		l.disown(u)
		l.out.Failed = append(l.out.Failed, u)
	}
	l.passUpTo(u)
}

// refused says whether the server, still in good health, answered NO or BAD
// for reasons of the message.
func refused(err error) bool {
	var no *imap.Error
	return errors.As(err, &no) && no.Type != imap.StatusResponseTypeBye && !passing(err)
}

// blames says whether err, which ended the look, may lie with the mail that was
// being fetched.
func (l *looker) blames(err error) bool { return l.ctx.Err() == nil && !passing(err) }

// passing recognises refusals that say nothing about the message (RFC 5530).
func passing(err error) bool {
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
