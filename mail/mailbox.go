package mail

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// Mailbox is one mailbox of an IMAP server.
type Mailbox struct {
	Server
	Name string // "" is INBOX
	Sent string // the folder for sent mail; "" asks the server

	// Now is the clock for Cursor.Complete; nil means time.Now.
	Now func() time.Time

	// Room reports whether a mail that a gate has rejected by its header is to be fetched and
	// kept. It is called once for each such mail, in order; nil accepts all of them. Refused
	// mails are only counted, see Scan.Beyond.
	Room func(m *Message) bool

	// Sweep asks for a sweep, which takes the operator's unread mail of the last week unless
	// Known knows it. Known reports whether the mail of a key was taken or rejected before; nil
	// means never.
	Sweep bool
	Known func(key string) bool

	// Large is the size, in bytes, above which a mail is left to FetchLarge; 0 means
	// 1 MiB.
	Large int64

	// Ahead is the cursor of the next Scan. If it is in order, Open requests the headers of the
	// first mails after it along with SELECT, which saves a round trip for new mail. The zero
	// value requests no headers.
	Ahead state.Cursor

	// Secrets are kept out of crash reports; nil if no secrets are known.
	Secrets *secret.Known

	// Until is a time of the real clock. After it a scan starts no more work and leaves the
	// rest to the next one. Zero means no limit.
	Until time.Time
}

// ID returns a short hash of host, username and name of the mailbox. It is
// state.Cursor.Mailbox, and part of every key. It does not depend on the port or on the login
// method.
func (m Mailbox) ID() string {
	host, _, err := net.SplitHostPort(m.Addr)
	if err != nil {
		host = m.Addr
	}
	sum := sha256.Sum256([]byte(strings.ToLower(host) + "\n" + m.Username + "\n" + m.name()))
	return hex.EncodeToString(sum[:6])
}

func (m Mailbox) name() string {
	if m.Name == "" || strings.EqualFold(m.Name, "INBOX") {
		return "INBOX"
	}
	return m.Name
}

func (m Mailbox) now() time.Time {
	if m.Now == nil {
		return time.Now()
	}
	return m.Now()
}

// Session is a mailbox opened for reading. Only one goroutine may use it.
type Session struct {
	mailbox Mailbox
	conn    *boundedConn // its deadlines work, unlike those of a fixedDeadline
	client  *imapclient.Client

	uidValidity uint32
	uidNext     uint32 // UIDNEXT at SELECT; 0 if the server did not send it
	exists      uint32 // the number of mails at SELECT

	anonymous *atomic.Bool // a mail came without its UID
	ahead     ahead
	marks     []chan error // results of each Mark that Marked has not waited for
}

// Open connects, logs in and selects the mailbox. After TCP and TLS, it sends the login, SELECT
// and the requests of Ahead in one flight, without waiting for the greeting (docs/protocol.md,
// "Round trips"); STARTTLS costs three more round trips.
//
// If the secret is refused or cannot be read, the error is a
// *state.CredentialError named "imap". A network fault is never such an error.
func (m Mailbox) Open(ctx context.Context) (*Session, error) {
	s, err := m.open(ctx, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("open mailbox %s at %s: %w", m.name(), m.Addr, cause(ctx, err))
	}
	return s, nil
}

// open is Open with options of the library. options may be nil, and may hold a handler for
// unsolicited data of the server. how may be nil; it selects the mailbox in another way, such
// as read-only.
func (m Mailbox) open(ctx context.Context, options *imapclient.Options, how *imap.SelectOptions) (*Session, error) {
	return openWithSecret(ctx, m.Server, "imap", func(secret string) (*Session, error) {
		return withFreshRoots(m.Server, func() (*Session, error) { return m.openWith(ctx, options, how, secret) })
	})
}

func (m Mailbox) openWith(ctx context.Context, options *imapclient.Options, how *imap.SelectOptions, secret string) (*Session, error) {
	conn, err := m.dial(ctx)
	if err != nil {
		return nil, err
	}
	raw := conn
	stop := closeOnDone(ctx, raw)
	defer stop()

	m.startPhase(raw)
	if m.TLS == TLSStart {
		if conn, err = m.startTLS(ctx, raw); err != nil {
			raw.Close()
			return nil, raw.failure(err)
		}
		m.startPhase(conn)
	}
	lc, err := startLogin(conn, bufio.NewReader(conn), m.Server, secret)
	if err != nil {
		conn.Close()
		return nil, err
	}
	anonymous := new(atomic.Bool)
	s := &Session{mailbox: m, conn: conn, client: imapclient.New(lc, noting(options, anonymous)), anonymous: anonymous}
	selected := s.client.Select(m.name(), how)
	headers := s.askAhead()
	if err := lc.release(); err != nil {
		s.client.Close() // waits for the reader, which sets lc.failed
		if lc.failed != nil && !errors.Is(lc.failed, net.ErrClosed) {
			err = lc.failed // the server said why it hung up
		}
		return nil, conn.failure(err)
	}
	// The answer to SELECT comes first, but the library blocks behind a literal that is not
	// read.
	s.readAhead(headers)
	data, err := selected.Wait()
	if err != nil {
		s.client.Close() // waits for the reader, which sets lc.failed
		if lc.failed != nil {
			return nil, conn.failure(lc.failed)
		}
		return nil, fmt.Errorf("select: %w", conn.failure(err))
	}
	if data.UIDValidity == 0 {
		s.client.Close()
		return nil, errors.New("select: the server sent no UIDVALIDITY, so its UIDs cannot be relied on")
	}
	s.uidValidity, s.uidNext, s.exists = data.UIDValidity, uint32(data.UIDNext), data.NumMessages
	return s, nil
}

// noting returns options that make the library set anonymous when the server sends a mail
// without identifying it.
func noting(options *imapclient.Options, anonymous *atomic.Bool) *imapclient.Options {
	var with imapclient.Options
	if options != nil {
		with = *options
	}
	var handler imapclient.UnilateralDataHandler
	if with.UnilateralDataHandler != nil {
		handler = *with.UnilateralDataHandler
	}
	handler.Fetch = func(msg *imapclient.FetchMessageData) { noteAnonymous(msg, anonymous) }
	with.UnilateralDataHandler = &handler
	return &with
}

// mails returns the maximum number of mails in the mailbox: the larger of the server's latest
// count and the count at SELECT. If both are missing or 0, it returns searchAbove, so that a
// few mails are still believed.
func (s *Session) mails() uint32 {
	n := s.exists
	if now := s.client.Mailbox(); now != nil {
		n = max(n, now.NumMessages)
	}
	if n == 0 {
		return searchAbove
	}
	return n
}

// ID returns the ID of the mailbox.
func (s *Session) ID() string { return s.mailbox.ID() }

// UIDValidity returns the UIDVALIDITY of the mailbox, which is never 0.
func (s *Session) UIDValidity() uint32 { return s.uidValidity }

// Mark asks the server to set \Seen on the mails seen, and \Seen and \Answered on the mails
// answered. It does not wait for the answer. The request is sent even if Close follows at once, and
// Marked returns the result. Mark is for mail of this agent, after its commit (docs/protocol.md,
// "Keys and the cursor"). It ignores UIDs that no longer exist.
func (s *Session) Mark(seen, answered []uint32) {
	seen = slices.DeleteFunc(slices.Clone(seen), func(u uint32) bool { return slices.Contains(answered, u) })
	s.mark(seen, imap.FlagSeen)
	s.mark(answered, imap.FlagSeen, imap.FlagAnswered)
}

func (s *Session) mark(uids []uint32, flags ...imap.Flag) {
	if len(uids) == 0 {
		return
	}
	s.mailbox.startPhase(s.conn)
	cmd := s.client.Store(uidSet(uids), &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: flags}, nil)
	marked := make(chan error, 1)
	s.marks = append(s.marks, marked)
	// The server's data about these mails must be read, or the library blocks.
	go s.mailbox.Secrets.Guarded(func() { marked <- cmd.Close() })()
}

// Marked waits until the server has answered each Mark so far.
func (s *Session) Marked(ctx context.Context) error {
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	var failed error
	for _, marked := range s.marks {
		failed = cmp.Or(failed, <-marked)
	}
	s.marks = nil
	if failed != nil {
		return fmt.Errorf("mark messages: %w", cause(ctx, failed))
	}
	return nil
}

// Close sends LOGOUT and hangs up without waiting for the answer.
func (s *Session) Close() error {
	s.conn.SetDeadline(time.Now().Add(time.Second))
	// The library would panic here on a broken connection: it would end a FETCH
	// that its reader is still answering.
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

// OpenFolder opens another folder of the mailbox, for Holds and Append. Its errors are
// those of Open.
func (m Mailbox) OpenFolder(ctx context.Context, name string) (*Session, error) {
	m.Name, m.Ahead = name, Mailbox{}.Ahead
	return m.Open(ctx)
}

// Holds reports whether the folder has a mail with this Message-ID.
func (s *Session) Holds(ctx context.Context, messageID string) (bool, error) {
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	s.mailbox.startPhase(s.conn)
	found, err := s.client.UIDSearch(&imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: "Message-ID", Value: messageID}}}, nil).Wait()
	if err != nil {
		return false, fmt.Errorf("search %s: %w", s.mailbox.name(), cause(ctx, s.conn.failure(err)))
	}
	return len(found.AllUIDs()) > 0, nil
}

// ErrTooBig reports that the server takes no mail of this size.
var ErrTooBig = errors.New("the server does not accept mail of this size")

// Append puts a mail of size bytes into the folder, marked as read. The error may wrap
// ErrTooBig. After any error the session cannot be used any more.
func (s *Session) Append(ctx context.Context, size int64, raw io.Reader, at time.Time) error {
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	s.mailbox.startPhase(s.conn)
	cmd := s.client.Append(s.mailbox.name(), size, &imap.AppendOptions{Flags: []imap.Flag{imap.FlagSeen}, Time: at})
	n, err := io.Copy(cmd, &pacedReader{raw, s})
	if err == nil && n != size {
		err = fmt.Errorf("the mail has %d bytes instead of the announced %d", n, size)
	}
	if err != nil {
		s.conn.Close() // the rest of the literal can never come
		return fmt.Errorf("append to %s: %w", s.mailbox.name(), cause(ctx, s.conn.failure(err)))
	}
	if err = cmd.Close(); err == nil {
		_, err = cmd.Wait()
	}
	if refused, ok := errors.AsType[*imap.Error](err); ok && (refused.Code == imap.ResponseCodeTooBig || refused.Code == imap.ResponseCodeLimit) {
		return fmt.Errorf("append to %s: %w: %v", s.mailbox.name(), ErrTooBig, refused)
	}
	if err != nil {
		return fmt.Errorf("append to %s: %w", s.mailbox.name(), cause(ctx, s.conn.failure(err)))
	}
	return nil
}

// pacedReader restarts the time limit of the session with each piece that is read.
type pacedReader struct {
	from io.Reader
	s    *Session
}

func (r *pacedReader) Read(p []byte) (int, error) {
	r.s.mailbox.startPhase(r.s.conn)
	return r.from.Read(p)
}

// SentFolders returns the folders of the mailbox that the server marks for sent mail (RFC
// 6154), sorted. exists reports whether a folder of this name exists.
func (m Mailbox) SentFolders(ctx context.Context, name string) (sent []string, exists bool, err error) {
	s, err := m.open(ctx, nil, &imap.SelectOptions{ReadOnly: true})
	if err != nil {
		return nil, false, fmt.Errorf("open mailbox %s at %s: %w", m.name(), m.Addr, cause(ctx, err))
	}
	defer s.Close()
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	if sent, err = s.sentFolders(); err != nil {
		return nil, false, fmt.Errorf("find the folder for sent mail at %s: %w", m.Addr, cause(ctx, s.conn.failure(err)))
	}
	if name == "" { // the server would answer with its delimiter
		return sent, false, nil
	}
	m.startPhase(s.conn)
	named, err := s.client.List("", name, nil).Collect()
	if err != nil {
		return nil, false, fmt.Errorf("list folder %s: %w", name, cause(ctx, s.conn.failure(err)))
	}
	exists = slices.ContainsFunc(named, func(f *imap.ListData) bool { return f.Mailbox == name })
	return sent, exists, nil
}
