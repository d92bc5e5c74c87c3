package mail

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// head is what is known of a mail before its body.
type head struct {
	uid     uint32
	at      time.Time
	size    int64
	seen    bool
	raw     []byte // the header fields asked for
	broken  bool   // the server answered without them
	message *Message
}

// headers fetches the heads of set, ascending, without setting \Seen. With an
// error it gives those that came before it.
func (l *looker) headers(set imap.UIDSet) ([]head, error) {
	l.box.phase(l.conn)
	cmd := l.client.Fetch(set, &imap.FetchOptions{
		UID: true, Flags: true, InternalDate: true, RFC822Size: true,
		BodySection: []*imap.FetchItemBodySection{{
			Specifier: imap.PartSpecifierHeader, HeaderFields: headerFields, Peek: true,
		}},
	})
	var heads []head
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
		h, err := readHead(msg)
		if err != nil {
			// The command is left as it is: to finish it would mean to read on.
			l.conn.Close()
			return heads, err
		}
		l.box.phase(l.conn)
		heads = append(heads, h)
	}
	err := cmd.Close()
	slices.SortFunc(heads, func(a, b head) int { return cmp.Compare(a.uid, b.uid) })
	return heads, err
}

func readHead(msg *imapclient.FetchMessageData) (head, error) {
	h := head{broken: true}
	for item := msg.Next(); item != nil; item = msg.Next() {
		switch item := item.(type) {
		case imapclient.FetchItemDataUID:
			h.uid = uint32(item.UID)
		case imapclient.FetchItemDataInternalDate:
			h.at = item.Time
		case imapclient.FetchItemDataRFC822Size:
			h.size = item.Size
		case imapclient.FetchItemDataFlags:
			h.seen = slices.Contains(item.Flags, imap.FlagSeen)
		case imapclient.FetchItemDataBodySection:
			if item.Literal == nil {
				continue
			}
			raw := &counted{r: item.Literal}
			h.raw, _ = io.ReadAll(io.LimitReader(raw, maxHeader))
			if err := raw.finish(item.Literal.Size()); err != nil {
				return h, err
			}
			h.broken = false
		}
	}
	return h, nil
}

// counted counts what is read, since go-imap ends the literal of a broken
// connection like a whole one, and never reads on after an end, since from then
// on the connection is read elsewhere.
type counted struct {
	r    io.Reader
	n    int64
	done error // what ended it
}

func (c *counted) Read(p []byte) (int, error) {
	if c.done != nil {
		return 0, c.done
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.done = err
	return n, err
}

// finish reads the rest of a literal of size bytes, which is an error if the
// connection has less.
func (c *counted) finish(size int64) error {
	_, err := io.Copy(io.Discard, c)
	if err == nil && c.n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// How a body can fail without the connection.
var (
	errGone       = errors.New("the message is gone")
	errUnreadable = errors.New("the server gave no body")
)

// keepError is the caller's: nothing is wrong with mail or server.
type keepError struct{ err error }

func (e *keepError) Error() string { return "keep: " + e.err.Error() }
func (e *keepError) Unwrap() error { return e.err }

// bodyFetch fetches bodies one by one, in order, with a few asked for ahead.
type bodyFetch struct {
	s       *Session
	max     int64      // of a mail over this only the header is fetched; 0 means no limit
	waiting []*Message // not asked for yet
	asked   []*imapclient.FetchCommand
}

func (b *bodyFetch) ask(ahead int) {
	for len(b.waiting) > 0 && len(b.asked) < min(ahead, bodyWindow) {
		m := b.waiting[0]
		section := &imap.FetchItemBodySection{Peek: true}
		if b.tooBig(m.Size) {
			section.Specifier = imap.PartSpecifierHeader
		}
		b.asked = append(b.asked, b.s.client.Fetch(imap.UIDSetNum(imap.UID(m.UID)), &imap.FetchOptions{
			UID: true, BodySection: []*imap.FetchItemBodySection{section},
		}))
		b.waiting = b.waiting[1:]
	}
}

func (b *bodyFetch) tooBig(size int64) bool { return b.max > 0 && size > b.max }

// next gives the body of m, which must be the next one, to keep; at most ahead
// bodies are under way. The whole fetch has one deadline. Any error but
// errGone, errUnreadable and a server's refusal leaves the session unusable.
func (b *bodyFetch) next(m *Message, keep Keep, ahead int) error {
	b.s.box.phase(b.s.conn)
	b.ask(ahead)
	cmd := b.asked[0]
	b.asked = b.asked[1:]

	result := errGone
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
		if result == errGone {
			result = errUnreadable
		}
		for item := msg.Next(); item != nil; item = msg.Next() {
			body, ok := item.(imapclient.FetchItemDataBodySection)
			if !ok || body.Literal == nil || result != errUnreadable {
				continue
			}
			if body.Literal.Size() == 0 && m.Size > 0 {
				continue
			}
			if result = b.give(m, body.Literal, keep); result != nil {
				// What is still on its way is not wanted any more. The command
				// is left as it is: to finish it would mean to read on.
				b.s.conn.Close()
				return result
			}
		}
	}
	if err := cmd.Close(); err != nil && (result == errGone || result == errUnreadable) {
		return err
	}
	return result
}

func (b *bodyFetch) give(m *Message, literal imap.LiteralReader, keep Keep) error {
	raw := &counted{r: literal}
	body := io.Reader(&whole{counted: raw, size: literal.Size()})
	if b.tooBig(literal.Size()) && m.Gate == "" {
		m.Gate, m.Reason = GateSize, fmt.Sprintf("%d bytes, the limit is %d; the server had said %d", literal.Size(), b.max, m.Size)
	}
	if b.tooBig(max(m.Size, literal.Size())) {
		body = headerOnly(raw)
	}
	err := keep(m, body)
	if torn := raw.finish(literal.Size()); torn != nil {
		return torn
	}
	if err != nil {
		return &keepError{err}
	}
	return nil
}

// whole ends with io.ErrUnexpectedEOF where the literal is cut short, so that
// nobody takes a piece for the mail.
type whole struct {
	*counted
	size int64
}

func (w *whole) Read(p []byte) (int, error) {
	n, err := w.counted.Read(p)
	if err == io.EOF && w.n < w.size {
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// headerOnly reads up to the first empty line, maxHeader bytes at most.
func headerOnly(r io.Reader) io.Reader {
	var header bytes.Buffer
	br := bufio.NewReader(io.LimitReader(r, maxHeader))
	for {
		line, err := br.ReadSlice('\n')
		header.Write(line)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) || len(bytes.TrimRight(line, "\r\n")) == 0 {
			return &header
		}
	}
}

// close drops what was asked for and is not wanted any more.
func (b *bodyFetch) close() {
	if len(b.asked) == 0 {
		return
	}
	b.s.conn.Close()
	for _, cmd := range b.asked {
		cmd.Close()
	}
}
