package mail

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// Mailbox is one mailbox of an IMAP server.
type Mailbox struct {
	Server
	Name string // "" is INBOX

	// Now is the clock for Cursor.Complete; nil is time.Now.
	Now func() time.Time

	// Until, on the real clock, is when a Look begins nothing more and leaves
	// the rest to the next; zero is never.
	Until time.Time
}

// ID is a short hash of host, username and mailbox: state.Cursor.Mailbox, and
// part of every key. Another port or another way to log in is the same box.
func (b Mailbox) ID() string {
	host, _, err := net.SplitHostPort(b.Addr)
	if err != nil {
		host = b.Addr
	}
	sum := sha256.Sum256([]byte(strings.ToLower(host) + "\n" + b.Username + "\n" + b.name()))
	return hex.EncodeToString(sum[:6])
}

func (b Mailbox) name() string {
	if b.Name == "" || strings.EqualFold(b.Name, "INBOX") {
		return "INBOX"
	}
	return b.Name
}

func (b Mailbox) now() time.Time {
	if b.Now == nil {
		return time.Now()
	}
	return b.Now()
}

// Session is a mailbox opened for reading. It serves one goroutine.
type Session struct {
	mailbox Mailbox
	conn    net.Conn // with deadlines that work
	client  *imapclient.Client

	uidValidity uint32
	uidNext     uint32 // UIDNEXT at SELECT; 0 when the server did not say
	exists      uint32 // how many there were at SELECT
}

// Open connects, logs in and selects the mailbox: TCP, TLS, then login and
// SELECT in one flight without waiting for the greeting (DESIGN 7); STARTTLS
// costs three round trips more. A refused or unreadable secret is a
// *state.CredentialError named "imap"; a network fault never is.
func (b Mailbox) Open(ctx context.Context) (*Session, error) {
	s, err := b.open(ctx, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("open mailbox %s at %s: %w", b.name(), b.Addr, cause(ctx, err))
	}
	return s, nil
}

// open is Open; options let the library pass on what the server says unasked,
// and how, unless it is nil, says in which way the mailbox is selected.
func (b Mailbox) open(ctx context.Context, options *imapclient.Options, how *imap.SelectOptions) (*Session, error) {
	return openWithSecret(ctx, b.Server, "imap", func(secret string) (*Session, error) { return b.openWith(ctx, options, how, secret) })
}

func (b Mailbox) openWith(ctx context.Context, options *imapclient.Options, how *imap.SelectOptions, secret string) (*Session, error) {
	conn, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	raw := conn
	stop := closeOnDone(ctx, raw)
	defer stop()

	b.startPhase(raw)
	if b.TLS == TLSStart {
		if conn, err = b.startTLS(ctx, raw); err != nil {
			raw.Close()
			return nil, err
		}
		b.startPhase(raw)
	}
	lc, err := startLogin(conn, bufio.NewReader(conn), b.Server, secret)
	if err != nil {
		conn.Close()
		return nil, err
	}
	client := imapclient.New(lc, options)
	data, err := client.Select(b.name(), how).Wait()
	if err != nil {
		client.Close() // waits for the reader, so that lc.failed is settled
		if lc.failed != nil {
			return nil, lc.failed
		}
		return nil, fmt.Errorf("select: %w", err)
	}
	if data.UIDValidity == 0 {
		client.Close()
		return nil, errors.New("select: the server gives no UIDVALIDITY, its UIDs cannot be relied on")
	}
	return &Session{mailbox: b, conn: conn, client: client, uidValidity: data.UIDValidity, uidNext: uint32(data.UIDNext), exists: data.NumMessages}, nil
}

// UIDValidity is the mailbox's UIDVALIDITY, never 0.
func (s *Session) UIDValidity() uint32 { return s.uidValidity }

// MarkSeen sets \Seen on uids and waits until the server has done so. It is for
// mail of this agent, after its commit (DESIGN 7). A UID that is gone is no
// error.
func (s *Session) MarkSeen(ctx context.Context, uids []uint32) error {
	if len(uids) == 0 {
		return nil
	}
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	s.mailbox.startPhase(s.conn)
	seen := &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagSeen}}
	if err := s.client.Store(uidSet(uids), seen, nil).Close(); err != nil {
		return fmt.Errorf("mark %d messages seen: %w", len(uids), cause(ctx, err))
	}
	return nil
}

// Close says LOGOUT, waits for no answer and hangs up.
func (s *Session) Close() error {
	s.conn.SetDeadline(time.Now().Add(time.Second))
	// Not by the library: on a broken connection it would end, from here, a
	// FETCH that its reader still answers, and panic.
	s.conn.Write([]byte("L2 LOGOUT\r\n"))
	return s.conn.Close()
}

func uidSet(uids []uint32) imap.UIDSet {
	var set imap.UIDSet
	for _, u := range uids {
		set.AddNum(imap.UID(u))
	}
	return set
}
