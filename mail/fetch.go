package mail

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// head is a mail before its body is fetched.
type head struct {
	uid     uint32
	at      time.Time
	size    int64
	seen    bool
	replied bool     // \Answered is set
	raw     []byte   // the requested bytes; nil in a scan once judged
	broken  bool     // the server answered without a header
	message *Message // nil if the mail is not for this agent

	rejected *Message        // message with the verdict of the gates on the header; nil if it passes
	keys     []trust.KeyName // of the signatures that may prove it; VerifyDKIM only
	asked    bool            // Room was asked whether to keep the rejected mail
	beyond   bool            // Room refused the rejected mail

	answered bool // the server answered the request for the body
	done     bool // kept, gone or failed
	failed   bool // the failure was counted
	unproven bool // it waits until its sender can be proved
	large    bool // it is left to FetchLarge
}

// headers fetches the heads of set, in ascending order, without setting \Seen, and judges them.
// With an error it returns the heads that came before it.
//
// It requests whole headers, because the proof of a sender depends on the order of all fields.
func (sc *scanner) headers(set imap.UIDSet) ([]head, error) {
	return sc.heads(set, message.MaxHeader, headerSection(), func(h *head) {
		sc.classify(h)
		h.raw = nil // a chunk of them may be large
	})
}

func headerSection() *imap.FetchItemBodySection {
	return &imap.FetchItemBodySection{Specifier: imap.PartSpecifierHeader, Peek: true}
}

// heads fetches one section of each mail in set, at most maxBytes of each, and calls read for
// each as it comes; read may be nil. With an error it returns the heads that came before it,
// and the session cannot be used any more.
func (s *Session) heads(set imap.NumSet, maxBytes int64, section *imap.FetchItemBodySection, read func(*head)) ([]head, error) {
	s.mailbox.startPhase(s.conn)
	return s.readHeads(s.fetchHeads(set, section), maxBytes, int(s.mails()), read)
}

// fetchHeads requests one section of each mail in set.
func (s *Session) fetchHeads(set imap.NumSet, section *imap.FetchItemBodySection) *imapclient.FetchCommand {
	return s.client.Fetch(set, &imap.FetchOptions{
		UID: true, Flags: true, InternalDate: true, RFC822Size: true,
		BodySection: []*imap.FetchItemBodySection{section},
	})
}

// readHeads reads the answer, which may be about at most limit mails.
func (s *Session) readHeads(cmd *imapclient.FetchCommand, maxBytes int64, limit int, read func(*head)) ([]head, error) {
	var heads []head
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
		h, err := s.readHead(msg, maxBytes)
		if err == nil && len(heads) >= limit {
			err = fmt.Errorf("the server returned more mails than the %d in the mailbox", limit)
		}
		if err != nil {
			s.abandon(cmd, err)
			return heads, err
		}
		s.conn.nextMail()
		if read != nil {
			read(&h)
		}
		heads = append(heads, h)
	}
	err := s.answered(cmd)
	slices.SortFunc(heads, func(a, b head) int { return cmp.Compare(a.uid, b.uid) })
	return heads, err
}

// errAnonymous is the error for mail that a server sends without identifying it first. It must
// not count as missing mail.
var errAnonymous = errors.New("the server sent a mail without a UID")

// answered ends a command and returns its error.
func (s *Session) answered(cmd *imapclient.FetchCommand) error {
	err := s.conn.failure(cmd.Close())
	if anonymous := s.anonymous.Swap(false); anonymous && err == nil {
		return errAnonymous
	}
	return err
}

// noteAnonymous reads an answer to FETCH that the library cannot assign to a command, and sets
// anonymous if the answer contains a mail before its UID.
func noteAnonymous(msg *imapclient.FetchMessageData, anonymous *atomic.Bool) {
	known := false
	for item := msg.Next(); item != nil; item = msg.Next() {
		switch item := item.(type) {
		case imapclient.FetchItemDataUID:
			known = item.UID != 0
		case imapclient.FetchItemDataBodySection:
			if !known {
				anonymous.Store(true)
			}
		}
	}
}

func (s *Session) readHead(msg *imapclient.FetchMessageData, maxBytes int64) (head, error) {
	h := head{broken: true}
	for item := msg.Next(); item != nil; item = msg.Next() {
		switch item := item.(type) {
		case imapclient.FetchItemDataUID:
			if h.uid = uint32(item.UID); h.uid == math.MaxUint32 {
				return h, errLastUID
			}
		case imapclient.FetchItemDataInternalDate:
			h.at = item.Time
		case imapclient.FetchItemDataRFC822Size:
			h.size = item.Size
		case imapclient.FetchItemDataFlags:
			h.seen, h.replied = slices.Contains(item.Flags, imap.FlagSeen), slices.Contains(item.Flags, imap.FlagAnswered)
		case imapclient.FetchItemDataBodySection:
			if item.Literal == nil || !h.broken {
				continue
			}
			raw, err := s.literal(h.uid, item.Literal, maxBytes)
			if err != nil {
				return h, err
			}
			h.raw, _ = io.ReadAll(io.LimitReader(raw, maxBytes))
			if err := raw.finish(item.Literal.Size()); err != nil {
				return h, &brokenBodyError{h.uid, err}
			}
			h.broken = len(h.raw) == 0 // an empty header is not a header
		}
	}
	return h, nil
}

// maxLiteral is the maximum length, in bytes, of a literal that is worth reading to its end.
// Mail over the limit of the gate is not requested.
const maxLiteral = 256 << 20

// literal returns a reader of a literal of the mail uid. It allows time for about maxBytes of the
// literal. If the literal is too long, it hangs up.
func (s *Session) literal(uid uint32, l imap.LiteralReader, maxBytes int64) (*countingReader, error) {
	if l.Size() <= maxLiteral {
		s.conn.paced.expect(min(l.Size(), maxBytes))
		return &countingReader{r: l, conn: s.conn}, nil
	}
	s.conn.Close()
	io.Copy(io.Discard, l) // go-imap waits for its end, which now comes soon
	return nil, &brokenBodyError{uid, fmt.Errorf("the server sent a literal of %d bytes", l.Size())}
}

// countingReader counts the bytes read, because go-imap ends the literal of a broken connection
// like a complete one. It never reads past the end, because another goroutine reads the
// connection from then on.
type countingReader struct {
	r    io.Reader
	conn *boundedConn // does not count these bytes
	n    int64
	done error // the error that ended it
}

func (c *countingReader) Read(p []byte) (int, error) {
	if c.done != nil {
		return 0, c.done
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.conn.allow(cost(p[:n]))
	c.done = err
	return n, err
}

// finish reads the rest of a literal of size bytes. It returns an error if the connection had
// fewer bytes.
func (c *countingReader) finish(size int64) error {
	_, err := io.Copy(io.Discard, c)
	if err == nil && c.n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// keepError is an error of the caller, not of the mail or the server.
type keepError struct{ err error }

func (e *keepError) Error() string { return "keep: " + e.err.Error() }
func (e *keepError) Unwrap() error { return e.err }

// brokenBodyError reports a connection that broke in the middle of a body or a header.
type brokenBodyError struct {
	uid uint32
	err error
}

func (e *brokenBodyError) Error() string { return fmt.Sprintf("fetch UID %d: %v", e.uid, e.err) }
func (e *brokenBodyError) Unwrap() error { return e.err }

// bodies fetches the bodies of hs with one command and keeps them as they come, in any order.
// Any error other than a refusal by the server leaves the session unusable.
//
// The first command must be answered in full before a second one is sent. Dovecot would answer
// both together at the end, and go-imap could not return either answer.
func (sc *scanner) bodies(hs []*head) error {
	section := &imap.FetchItemBodySection{Peek: true}
	wanted := map[uint32]*head{}
	var set imap.UIDSet
	for _, h := range hs {
		if sc.tooBig(h.size) { // then hs holds only h
			section.Specifier = imap.PartSpecifierHeader
		}
		wanted[h.uid] = h
		set.AddNum(imap.UID(h.uid))
	}
	sc.mailbox.startPhase(sc.conn)
	cmd := sc.client.Fetch(set, &imap.FetchOptions{UID: true, BodySection: []*imap.FetchItemBodySection{section}})
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
		sc.conn.nextMail()
		var h *head
		for item := msg.Next(); item != nil; item = msg.Next() {
			switch item := item.(type) {
			case imapclient.FetchItemDataUID:
				if h = wanted[uint32(item.UID)]; h != nil {
					h.answered = true
				}
			case imapclient.FetchItemDataBodySection:
				if h == nil || h.done || item.Literal == nil || item.Literal.Size() == 0 {
					continue
				}
				if err := sc.keepBody(h, item.Literal); err != nil {
					sc.abandon(cmd, err)
					return err
				}
			}
		}
	}
	return sc.answered(cmd)
}

// abandon hangs up and drops the remaining data. It reads the command to its end, because the
// reader of go-imap would otherwise wait forever for somebody to read a literal that it already
// has. If err is the end of the connection, abandon does not read on, because two goroutines
// would then read.
func (s *Session) abandon(cmd *imapclient.FetchCommand, err error) {
	s.conn.Close()
	var torn *brokenBodyError
	if !errors.As(err, &torn) {
		cmd.Close()
	}
}

func (sc *scanner) tooBig(size int64) bool { return sc.judge.tooBig(size) }

// keepBody hands one body to keep.
func (sc *scanner) keepBody(h *head, literal imap.LiteralReader) error {
	m := h.message
	h.large = sc.leftToFetchLarge(&head{size: literal.Size()}) // from the next try on, if this one fails
	raw, err := sc.literal(h.uid, literal, sc.bytesToAllow(literal.Size()))
	if err != nil {
		return err
	}
	body := &wholeReader{countingReader: raw, size: literal.Size()}
	_, err = sc.judge.body(sc.ctx, m, body, literal.Size(), sc.keep)
	if torn := raw.finish(literal.Size()); torn != nil {
		return &brokenBodyError{h.uid, torn}
	}
	if u, ok := errors.AsType[*trust.UnprovenError](err); ok {
		sc.deferProof(h, u)
		return nil
	}
	if err != nil {
		return &keepError{err}
	}
	h.done = true
	sc.out.Messages = append(sc.out.Messages, *m)
	if m.Gate == "" {
		sc.left--
	}
	return nil
}

// wholeReader ends with io.ErrUnexpectedEOF if the literal is cut short, so
// that a part of a mail is not taken for the whole.
type wholeReader struct {
	*countingReader
	size int64
}

func (w *wholeReader) Read(p []byte) (int, error) {
	n, err := w.countingReader.Read(p)
	if err == io.EOF && w.n < w.size {
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// headerOnly returns the bytes up to the first empty line, and little more than
// message.MaxHeader bytes. It ignores a read error, because finish finds it again.
func headerOnly(r io.Reader) io.Reader {
	header, _ := message.CutHeader(bufio.NewReader(r))
	return bytes.NewReader(header)
}
