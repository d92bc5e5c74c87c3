package mail

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/mail/message"

	"github.com/emersion/go-imap/v2"
)

// This file reads the folder for sent mail. A restored state is older than the mailbox, and the
// answers in that folder show which mail was answered since (docs/protocol.md, "After a restore").

const (
	maxSentMails  = 5000             // mails of ours whose header is read, the newest
	maxSentHeader = 32 << 10         // bytes of the fields that are read of each
	sentWithin    = 20 * time.Second // no further headers are requested after it
)

// Answers are the final answers of an agent in the folder for sent mail.
type Answers struct {
	// Missing says why answers may be missing: the server names no folder, refuses it, or it holds
	// too many mails. It is "" if the folder was read to its end.
	Missing string

	replied map[string]bool // Message-IDs in In-Reply-To of an answer
	sent    map[string]bool // Message-IDs of our mails of every kind
}

// To reports whether an answer of ours to the mail messageID is in the folder. An answer that only
// has it in References proves nothing: it may be the answer to another mail of that thread.
func (a Answers) To(messageID string) bool {
	id := sameID(messageID)
	return id != "" && a.replied[id]
}

// Sent reports whether our mail messageID is in the folder.
func (a Answers) Sent(messageID string) bool { return a.sent[sameID(messageID)] }

// sameID returns a Message-ID in the form in which ids are compared.
func sameID(id string) string { return message.Lower(strings.TrimSpace(id)) }

// Answered reads the answers of the agent handle from the folder for sent mail, since the day
// before since. The folder is Mailbox.Sent, or the one that the server marks \Sent (RFC 6154). It
// is opened read-only, on a connection of its own, so the session is not disturbed. A server that
// has no such folder, or refuses it, causes no error, but Answers.Missing. A mail counts by its
// field X-AgentStateLoop and its Message-ID; nobody else can write into the folder, so the MAC is
// not checked, whose key may be lost.
func (s *Session) Answered(ctx context.Context, handle string, since time.Time) (Answers, error) {
	a := Answers{replied: map[string]bool{}, sent: map[string]bool{}}
	var err error
	a.Missing, err = s.mailbox.readSent(ctx, handle, since, maxSentMails, func(h message.Header, _ time.Time) {
		a.sent[sameID(h.MessageID)] = true
		if !message.IsAnswer(h.MessageID, handle) {
			return
		}
		if h.InReplyTo != "" {
			a.replied[sameID(h.InReplyTo)] = true
		}
	})
	return a, err
}

// sentUntil returns until when headers of sent mail may be requested.
func sentUntil(now time.Time) time.Time { return now.Add(sentWithin) }

// readSent calls read for each mail of handle in the folder for sent mail, the newest most since
// the day before since. at is its INTERNALDATE. missing says why not all mails were read. After
// sentWithin it requests no more headers.
func (m Mailbox) readSent(ctx context.Context, handle string, since time.Time, most int, read func(h message.Header, at time.Time)) (missing string, err error) {
	m.Ahead, m.Until = Mailbox{}.Ahead, sentUntil(time.Now())
	s, err := m.open(ctx, nil, &imap.SelectOptions{ReadOnly: true})
	if err != nil {
		return "", fmt.Errorf("open mailbox %s at %s: %w", m.name(), m.Addr, cause(ctx, err))
	}
	defer s.Close()
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	missing, err = s.readSent(handle, since, most, read)
	switch {
	case err != nil && refusal(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("read sent mail at %s: %w", m.Addr, cause(ctx, s.conn.failure(err)))
	}
	return missing, nil
}

// readSent is Mailbox.readSent in a session of its own.
func (s *Session) readSent(handle string, since time.Time, most int, read func(h message.Header, at time.Time)) (missing string, err error) {
	folder := s.mailbox.Sent
	if folder == "" {
		marked, err := s.sentFolders()
		if err != nil {
			return "", err
		}
		if len(marked) == 0 {
			return "the server names no folder for sent mail; set sent in [replies]", nil
		}
		folder = marked[0]
	}
	s.mailbox.startPhase(s.conn)
	opened, err := s.client.Select(folder, &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		return "", fmt.Errorf("open folder %s: %w", folder, err)
	}
	if s.exists = opened.NumMessages; s.exists == 0 {
		return "", nil
	}
	found, more, err := s.sentBy(handle, since)
	if err != nil {
		return "", err
	}
	if more || len(found) > most {
		missing = fmt.Sprintf("only the newest %d mails of the folder %s were read", most, folder)
		found = found[max(0, len(found)-most):]
	}
	for len(found) > 0 {
		if time.Now().After(s.mailbox.Until) {
			return fmt.Sprintf("the time did not suffice for the oldest %d mails of the folder %s", len(found), folder), nil
		}
		chunk := found[max(0, len(found)-headerChunk):]
		found = found[:len(found)-len(chunk)]
		if err := s.readSentHeads(chunk, handle, read); err != nil {
			return "", err
		}
	}
	return missing, nil
}

// sentBy returns the UIDs of the mails that may be of handle, ascending. A server that cannot
// compare our field is asked without it.
func (s *Session) sentBy(handle string, since time.Time) (uids []uint32, more bool, err error) {
	var c imap.SearchCriteria
	if !since.IsZero() {
		c.Since = dayBefore(since)
	}
	narrow := c
	narrow.Header = []imap.SearchCriteriaHeaderField{{Key: message.AgentField, Value: handle}}
	uids, more, err = s.search(narrow)
	if err != nil && serverRefused(err) {
		return s.search(c)
	}
	return uids, more, err
}

// readSentHeads calls read for the mails of handle among uids.
func (s *Session) readSentHeads(uids []uint32, handle string, read func(h message.Header, at time.Time)) error {
	section := &imap.FetchItemBodySection{
		Specifier: imap.PartSpecifierHeader, Peek: true,
		HeaderFields: []string{"Message-ID", "In-Reply-To", "References", message.AgentField, message.PlaceField},
	}
	_, err := s.heads(uidSet(uids), maxSentHeader, section, func(h *head) {
		header := message.ParseHeader(h.raw)
		h.raw = nil // a chunk of them may be large
		if strings.EqualFold(header.Agent, handle) {
			read(header, h.at)
		}
	})
	if err != nil {
		return fmt.Errorf("fetch headers of sent mail: %w", err)
	}
	return nil
}

// sentFolders returns the folders that the server marks for sent mail (RFC 6154), sorted. A server
// that can select them is not asked for all folders, and some mark them only when asked.
func (s *Session) sentFolders() ([]string, error) {
	s.mailbox.startPhase(s.conn)
	caps, err := s.client.Capability().Wait()
	if err != nil {
		return nil, fmt.Errorf("capability: %w", err)
	}
	var options *imap.ListOptions
	if caps.Has(imap.CapSpecialUse) && caps.Has(imap.CapListExtended) {
		options = &imap.ListOptions{SelectSpecialUse: true, ReturnSpecialUse: true}
	}
	s.mailbox.startPhase(s.conn)
	folders, err := s.client.List("", "*", options).Collect()
	if err != nil {
		return nil, fmt.Errorf("list folders: %w", err)
	}
	var marked []string
	for _, f := range folders {
		if slices.Contains(f.Attrs, imap.MailboxAttrSent) {
			marked = append(marked, f.Mailbox)
		}
	}
	slices.Sort(marked)
	return marked, nil
}

// ElsewhereMail is a mail of ours that another state sent: another machine works as this agent.
type ElsewhereMail struct {
	Place  string    // of the other state
	Effect string    // in lower case
	At     time.Time // INTERNALDATE
}

// maxElsewhere is how many mails of ours are examined for the place of another state, the newest.
const maxElsewhere = 50

// SentElsewhere returns the newest mails of the agent handle in the folder for sent mail that have
// another place than place and came after since, the newest first. It reads the folder as Answered
// does. Without a folder it finds none.
func (s *Session) SentElsewhere(ctx context.Context, handle, place string, since time.Time) ([]ElsewhereMail, error) {
	var found []ElsewhereMail
	_, err := s.mailbox.readSent(ctx, handle, since, maxElsewhere, func(h message.Header, at time.Time) {
		effect, ours := message.EffectOf(h.MessageID, handle)
		if ours && validPlace(h.Place) && h.Place != place && at.After(since) {
			found = append(found, ElsewhereMail{Place: h.Place, Effect: effect, At: at.UTC()})
		}
	})
	order.Sort(found, func(a, b ElsewhereMail) int { return b.At.Compare(a.At) })
	return found, err
}

// validPlace reports whether place is one: 16 hexadecimal digits.
func validPlace(place string) bool {
	return len(place) == 16 && strings.Trim(place, "0123456789abcdef") == ""
}
