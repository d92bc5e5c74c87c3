package mail

import (
	"math"
	"slices"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// This file asks for the headers of new mail before it is known whether there is any,
// in the flight of SELECT (docs/design.md, "Round trips").

// maxAhead is how many UIDs are asked for ahead, and maxAgain how many that were not
// shown. Where more are new, their headers are asked for as always, and those that came
// ahead are not used.
const (
	maxAhead = 16
	maxAgain = 100
)

// ahead holds the headers that were asked for along with SELECT. They are not judged
// yet, and may be of another mailbox than the cursor that they were asked for.
type ahead struct {
	again state.UIDRanges // were not shown before
	first uint32          // where new mail begins; 0: nothing was asked for
	heads []head
	err   error // the session cannot be used any more
}

// inOrder reports whether nothing that cur holds comes before its new mail, but for
// UIDs that were not shown. What is owed or under suspicion must not wait for a header
// that may break the connection.
func (m Mailbox) inOrder(cur state.Cursor) bool {
	return cur.Mailbox == m.ID() && len(cur.Owed) == len(cur.Large) && len(cur.Failures) == 0 && cur.Reread == nil &&
		cur.Next > 0 && cur.Next < math.MaxUint32-maxAhead && cur.Unseen.Count() <= maxAgain
}

// askAhead asks for the headers that the next scan will want first, or returns nil.
func (s *Session) askAhead() *imapclient.FetchCommand {
	cur := s.mailbox.Ahead
	if !s.mailbox.inOrder(cur) {
		return nil
	}
	s.ahead = ahead{again: cur.Unseen, first: cur.Next}
	set := setOf(cur.Unseen)
	set.AddRange(imap.UID(cur.Next), imap.UID(cur.Next+maxAhead-1))
	return s.fetchHeads(set, headerSection())
}

// readAhead reads the answer. A refusal is none: the headers are asked for as always.
func (s *Session) readAhead(cmd *imapclient.FetchCommand) {
	if cmd == nil {
		return
	}
	heads, err := s.readHeads(cmd, message.MaxHeader, maxAhead+maxAgain, nil)
	if err != nil && refusal(err) {
		s.ahead = ahead{}
		return
	}
	s.ahead.heads, s.ahead.err = heads, err
}

// blameAhead counts the end of the session against the first mail that did not come ahead,
// whatever else there is to do: with the suspicion the next session asks for nothing ahead,
// and does that first.
func (sc *scanner) blameAhead(err error) {
	if !sc.mayBlameMail(err) {
		return
	}
	at, ok := firstUnshown(sc.ahead.again, sc.ahead.heads)
	if !ok {
		at = sc.ahead.first
		for _, h := range sc.ahead.heads {
			at = max(at, h.uid+1)
		}
	}
	sc.suspect(at, time.Time{}, reasonOf(err))
}

// newAhead returns the heads of the mails from first up to, but without, end, if all of
// them came ahead.
func (sc *scanner) newAhead(first, end uint32) (heads []head, came bool) {
	if sc.ahead.first != first || end == 0 || end-first > maxAhead || sc.before.Validity != sc.uidValidity {
		return nil, false
	}
	return sc.judged(func(u uint32) bool { return u >= first }), true
}

// againAhead does the same for UIDs that were not shown before.
func (sc *scanner) againAhead(asked state.UIDRanges) (heads []head, came bool) {
	if !slices.Equal(sc.ahead.again, asked) || sc.before.Validity != sc.uidValidity {
		return nil, false
	}
	return sc.judged(asked.Contains), true
}

// judged returns the wanted ones among the heads that came ahead, judged.
func (sc *scanner) judged(wanted func(uint32) bool) (heads []head) {
	for _, h := range sc.ahead.heads {
		if !wanted(h.uid) {
			continue
		}
		sc.classify(&h)
		h.raw = nil
		heads = append(heads, h)
	}
	return heads
}
