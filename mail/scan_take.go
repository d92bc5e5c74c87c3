package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// This file takes the mails that a scan has found. It asks the gates, fetches the bodies and
// moves the cursor.

// take keeps the mails for this agent among heads, in their order.
func (sc *scanner) take(heads []head) error {
	if slices.ContainsFunc(heads, func(h head) bool { return len(h.keys) > 0 }) {
		sc.findKeys(heads)
	}
	for len(heads) > 0 {
		n, ours := sc.group(heads)
		if n == 0 || len(ours) > 0 && sc.full() {
			return errLimit
		}
		err := sc.fetch(ours)
		sc.moveCursor(heads[:n], err == nil)
		if err != nil {
			return err
		}
		heads = heads[n:]
	}
	return nil
}

// group returns the number of heads to finish together, and those of them whose bodies to fetch
// now. A mail that is too big is alone in its group, because only its header is fetched.
func (sc *scanner) group(heads []head) (n int, ours []*head) {
	size := int64(0)
	for n < len(heads) {
		h := &heads[n]
		switch {
		case !sc.fetches(h):
		case sc.leftToFetchLarge(h):
			h.large = true
		case len(ours) == min(sc.left, bodyGroup):
			return n, ours
		case len(ours) > 0 && (sc.tooBig(h.size) || sc.tooBig(ours[0].size) || size+h.size > largeMail):
			return n, ours
		default:
			ours = append(ours, h)
			size += h.size
		}
		n++
	}
	return n, ours
}

// fetches reports whether h is a mail for this agent that is to be kept.
func (sc *scanner) fetches(h *head) bool {
	if h.rejected == nil || sc.mailbox.Room == nil {
		return h.message != nil
	}
	if !h.asked {
		h.asked, h.beyond = true, !sc.mailbox.Room(h.rejected)
	}
	return !h.beyond
}

// fetch keeps the bodies of hs. If the server fails on some of them, fetch tries each one
// alone, and each fails alone.
func (sc *scanner) fetch(hs []*head) error {
	if len(hs) == 0 {
		return nil
	}
	err := sc.bodies(hs)
	left := slices.DeleteFunc(slices.Clone(hs), func(h *head) bool { return h.done })
	if err != nil && !serverRefused(err) {
		var k *keepError
		if !errors.As(err, &k) && sc.mayBlameMail(err) {
			sc.blame(left, err)
		}
		return err
	}
	if len(hs) == 1 && len(left) == 1 {
		h := left[0]
		h.done, h.failed = true, true
		reason := "the server did not send its body"
		switch {
		case err != nil:
			reason = err.Error()
		case h.answered:
			reason = "the server sent an empty body"
		}
		sc.fail(h.uid, h.at, reason)
		return nil
	}
	for _, h := range left {
		if err := sc.fetch([]*head{h}); err != nil {
			return err
		}
	}
	return nil
}

// blame counts the end of the connection against the mail whose body was being read, otherwise
// against the first mail that had not come.
func (sc *scanner) blame(left []*head, err error) {
	if len(left) == 0 {
		return
	}
	h := left[0]
	var torn *brokenBodyError
	if errors.As(err, &torn) {
		h = left[slices.IndexFunc(left, func(h *head) bool { return h.uid == torn.uid })]
	}
	h.done, h.failed = true, true
	sc.fail(h.uid, h.at, reasonOf(err))
}

// moveCursor moves the cursor past the last of heads that is done. Earlier heads that are not
// done are owed. If all is true, it moves the cursor past all of them.
func (sc *scanner) moveCursor(heads []head, all bool) {
	last := len(heads) - 1
	for !all && last >= 0 && !heads[last].done {
		last--
	}
	for _, h := range heads[:last+1] {
		switch {
		case h.broken:
			sc.noteHeadless(h)
		case h.message == nil:
			sc.pass(h.uid)
		case h.beyond:
			sc.pass(h.uid)
			sc.count(h.rejected)
		case h.large && !h.done:
			sc.oweLarge(h.uid)
			sc.passUpTo(h.uid)
		case !h.done || h.unproven:
			sc.owe(h.uid)
			sc.passUpTo(h.uid)
		case h.failed:
			sc.passUpTo(h.uid)
			if h.large {
				sc.oweLarge(h.uid)
			}
		default:
			sc.pass(h.uid)
		}
	}
}

// count records a mail that was not fetched. It ignores a mail that a sweep finds again.
func (sc *scanner) count(m *Message) {
	if sc.sweeping {
		return
	}
	if len(sc.out.Beyond) < maxBeyond {
		sc.out.Beyond = append(sc.out.Beyond, *m)
		return
	}
	if sc.out.Further == nil {
		sc.out.Further = map[string]int{}
	}
	sc.out.Further[m.Gate]++
}

// classify creates the message of h, if the mail is for this agent, and judges it by its
// header. A mail whose header lacks a proof is judged again if it is fetched.
func (sc *scanner) classify(h *head) {
	if h.broken {
		return
	}
	m := Message{
		Key: fmt.Sprintf("mail:%s.%d.%d", sc.mailbox.ID(), sc.uidValidity, h.uid),
		UID: h.uid, At: h.at.UTC(), Size: h.size, Seen: h.seen, Answered: h.replied,
		Before: sc.out.Cursor.Restored.Contains(h.uid),
	}
	if h.at.IsZero() {
		m.At = sc.mailbox.now().UTC()
	}
	v := sc.judge.head(h.raw, m)
	if v.report {
		sc.noteReport(h, v.likely)
	}
	switch {
	case v.mine:
		h.at, h.message, h.rejected, h.keys = v.message.At, &v.message, v.rejected, v.keys
	case v.uncalled && !sc.sweeping:
		sc.noteUncalled(h)
	}
}

// noteUncalled counts a mail that the operator wrote by hand to this agent's address and that
// calls no agent.
func (sc *scanner) noteUncalled(h *head) {
	sc.out.Uncalled++
	if h.at.After(sc.out.LastOne) {
		sc.out.LastOne = h.at
	}
}

// endHeader returns a header with the empty line that ends it, which some servers leave out. A
// header that was cut off at its limit does not need the line.
func endHeader(raw []byte) []byte {
	end := []byte("\n")
	if bytes.HasSuffix(raw, []byte("\r\n")) {
		end = []byte("\r\n")
	}
	if len(raw) >= message.MaxHeader || bytes.HasSuffix(raw, append(end, end...)) {
		return raw
	}
	return append(raw, end...)
}

const maxQuestions = 32 // DNS queries that run at the same time

// findKeys looks up the keys that may prove the mails of heads, many at a time, and rejects the
// mails whose keys do not exist. So thousands of forged mails, each with its own selector, cost
// no bodies, and little more time than one.
//
// A query without an answer rejects no mail. The judgement of the body then decides.
func (sc *scanner) findKeys(heads []head) {
	sc.conn.paced.pause() // its reader always waits, and must outlast the queries
	defer sc.conn.paced.resume()
	ctx, cancel := context.WithTimeout(sc.ctx, sc.mailbox.timeout())
	defer cancel()
	absent := sc.absentKeys(ctx, heads)
	for i := range heads {
		h := &heads[i]
		if !allAbsent(h.keys, func(k trust.KeyName) bool { return absent[k] }) {
			continue
		}
		h.rejected = sc.judge.withoutKey(*h.message, h.keys[0])
	}
}

// absentKeys returns the keys of heads that do not exist according to the DNS.
func (sc *scanner) absentKeys(ctx context.Context, heads []head) map[trust.KeyName]bool {
	var mu sync.Mutex
	var asking sync.WaitGroup
	defer asking.Wait()
	free := make(chan struct{}, maxQuestions)
	absent, requested := map[trust.KeyName]bool{}, map[trust.KeyName]bool{}
	for _, h := range heads {
		for _, k := range h.keys {
			if requested[k] || sc.late() || ctx.Err() != nil {
				continue
			}
			requested[k] = true
			free <- struct{}{}
			asking.Go(sc.mailbox.Secrets.Guarded(func() {
				defer func() { <-free }()
				if sc.judge.Filter.KeyAbsent(ctx, k) {
					mu.Lock()
					defer mu.Unlock()
					absent[k] = true
				}
			}))
		}
	}
	return absent
}

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
var ErrOtherMailbox = errors.New("the mailbox was replaced or renumbered")

// FetchLarge takes the mail uid of cur.Large, with the judgement and the errors of Scan. The
// result, including its cursor, covers only this mail.
func (s *Session) FetchLarge(ctx context.Context, cur state.Cursor, uid uint32, f trust.Filter, keep Keep) (Scan, error) {
	if cur.Mailbox != s.mailbox.ID() || cur.Validity != s.uidValidity {
		return Scan{Cursor: cur}, ErrOtherMailbox
	}
	alone := state.Cursor{
		Mailbox: cur.Mailbox, Validity: cur.Validity, Next: cur.Next, Complete: cur.Complete,
		Owed: []uint32{uid}, Large: []uint32{uid}, Restored: cur.Restored,
	}
	if failure, failing := cur.Failures[uid]; failing {
		alone.Failures = map[uint32]state.Failure{uid: failure}
	}
	sc := s.scanner(ctx, alone, f, 1, keep)
	sc.apart = true
	return sc.scan(func() error { return sc.takeUIDs([]uint32{uid}) })
}

// leftToFetchLarge reports whether h, a mail to keep, is left to FetchLarge.
func (sc *scanner) leftToFetchLarge(h *head) bool {
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

// bytesToAllow returns how many bytes of a literal of a mail to allow time for. A scan must not
// wait long for a mail that is larger than its server reported.
func (sc *scanner) bytesToAllow(literal int64) int64 {
	limit := sc.judge.Filter.MaxSize
	if limit <= 0 {
		limit = maxLiteral
	}
	if !sc.apart {
		limit = min(limit, 2*sc.mailbox.large())
	}
	return min(literal, limit)
}
