package mail

import (
	"bytes"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// This file requests the headers of new mail in the flight of SELECT, before it is known
// whether there is new mail (docs/protocol.md, "Round trips").

// maxAhead limits the UIDs requested ahead, and maxAgain those that were not shown before. If
// more mails are new, the scan requests their headers as usual and ignores the headers that
// came ahead.
const (
	maxAhead = 16
	maxAgain = 100
)

// ahead holds the headers requested along with SELECT. They are not judged yet, and may belong
// to another mailbox than the cursor.
type ahead struct {
	again state.UIDRanges // UIDs that were not shown before
	first uint32          // where new mail begins; 0 if nothing was requested
	heads []head
	err   error // the session cannot be used any more
}

// inOrder reports whether cur holds only unshown UIDs ahead of its new mail. Owed and suspected
// mail must not wait for a header that may break the connection.
func (m Mailbox) inOrder(cur state.Cursor) bool {
	return cur.Mailbox == m.ID() && len(cur.Owed) == len(cur.Large) && len(cur.Failures) == 0 && cur.Reread == nil &&
		cur.Next > 0 && cur.Next < math.MaxUint32-maxAhead && cur.Unseen.Count() <= maxAgain
}

// askAhead requests the headers that the next scan needs first. It returns nil if the cursor is
// not in order.
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

// readAhead reads the answer. If the server refuses, the scan requests the headers as usual.
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

// blameAhead counts the end of the session against the first mail that did not come ahead, even
// if other work is pending. The suspicion keeps the next session from requesting headers ahead,
// so it does the other work first.
func (sc *scanner) blameAhead(err error) {
	if !sc.mayBlameMail(err) {
		return
	}
	at, ok := firstMissingIn(sc.ahead.again, sc.ahead.heads)
	if !ok {
		at = sc.ahead.first
		for _, h := range sc.ahead.heads {
			at = max(at, h.uid+1)
		}
	}
	sc.countFailure(at, time.Time{}, reasonOf(err))
}

// newAhead returns the heads of the mails with UIDs from first up to but not including end.
// ok is false unless all of them came ahead.
func (sc *scanner) newAhead(first, end uint32) (heads []head, ok bool) {
	if sc.ahead.first != first || end == 0 || end-first > maxAhead || sc.before.Validity != sc.uidValidity {
		return nil, false
	}
	return sc.judgeAhead(func(u uint32) bool { return u >= first }), true
}

// againAhead returns the heads of the unshown UIDs in ranges. ok is false unless exactly these
// were requested ahead.
func (sc *scanner) againAhead(ranges state.UIDRanges) (heads []head, ok bool) {
	if !slices.Equal(sc.ahead.again, ranges) || sc.before.Validity != sc.uidValidity {
		return nil, false
	}
	return sc.judgeAhead(ranges.Contains), true
}

// judgeAhead judges the wanted heads among those that came ahead, and returns them.
func (sc *scanner) judgeAhead(wanted func(uint32) bool) (heads []head) {
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

// aheadConn sends commands before the library does (RFC 2920), because go-smtp waits for the
// answer to each. The library must then write exactly these commands, and they are not sent
// again. The answers come in the same order.
type aheadConn struct {
	net.Conn
	next []byte // to send after MAIL
	sent []byte // sent, but not written by the library yet
}

// errOtherCommand is the error for a library that writes another command than the one sent
// ahead.
var errOtherCommand = errors.New("smtp: the command differs from the one sent ahead")

// Write writes p, unless it was sent ahead.
func (c *aheadConn) Write(p []byte) (int, error) {
	if len(c.sent) > 0 {
		rest, same := bytes.CutPrefix(c.sent, p)
		if !same {
			return 0, errOtherCommand
		}
		c.sent = rest
		return len(p), nil
	}
	if len(c.next) == 0 || !bytes.HasPrefix(p, []byte("MAIL ")) { // after RSET the library greets again first
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(append(bytes.Clone(p), c.next...))
	c.sent, c.next = c.next, nil
	return min(n, len(p)), err
}

// envelopeAhead returns the commands that may follow MAIL at once, as the library writes them.
// It includes DATA only for a single recipient: a server that refuses that recipient refuses
// DATA too. It returns nil if the library would refuse to send an address.
func envelopeAhead(to []string) []byte {
	var lines []byte
	for _, r := range to {
		if strings.ContainsAny(r, "\r\n") {
			return nil
		}
		lines = append(lines, "RCPT TO:<"+r+">\r\n"...)
	}
	if len(to) == 1 {
		lines = append(lines, "DATA\r\n"...)
	}
	return lines
}
