package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
)

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
var ErrTooBig = errors.New("the server takes no mail of this size")

// Append puts a mail of size bytes into the folder, marked as read. The error may wrap
// ErrTooBig. After any error the session cannot be used any more.
func (s *Session) Append(ctx context.Context, size int64, raw io.Reader, at time.Time) error {
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	s.mailbox.startPhase(s.conn)
	cmd := s.client.Append(s.mailbox.name(), size, &imap.AppendOptions{Flags: []imap.Flag{imap.FlagSeen}, Time: at})
	n, err := io.Copy(cmd, &pacedReader{raw, s})
	if err == nil && n != size {
		err = fmt.Errorf("the mail has %d bytes, and %d were announced", n, size)
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
// 6154), sorted. there reports whether a folder of this name exists.
func (m Mailbox) SentFolders(ctx context.Context, name string) (sent []string, there bool, err error) {
	s, err := m.open(ctx, nil, &imap.SelectOptions{ReadOnly: true})
	if err != nil {
		return nil, false, fmt.Errorf("open mailbox %s at %s: %w", m.name(), m.Addr, cause(ctx, err))
	}
	defer s.Close()
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	m.startPhase(s.conn)
	folders, err := s.client.List("", "*", nil).Collect()
	if err != nil {
		return nil, false, fmt.Errorf("list folders: %w", cause(ctx, s.conn.failure(err)))
	}
	for _, f := range folders {
		there = there || f.Mailbox == name
		if slices.Contains(f.Attrs, imap.MailboxAttrSent) {
			sent = append(sent, f.Mailbox)
		}
	}
	slices.Sort(sent)
	return sent, there, nil
}
