package mail

import (
	"context"
	"fmt"
	"slices"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"

	"github.com/emersion/go-imap/v2"
)

const (
	probeHeads  = 100     // last mails, from anybody, whose header is read
	probeTrials = 5       // last mails of the operator whose proof is checked
	probeMail   = 1 << 20 // bytes; the body of a longer mail is not read
)

// Probe describes a mailbox.
type Probe struct {
	Caps  []string // of the server after the login, sorted
	Mails uint32   // in the mailbox

	// Newest is the latest arrival by the clock of the server. It is zero for an
	// empty mailbox.
	Newest time.Time

	// AuthservIDs holds the topmost authserv-id (RFC 8601) of each of the last mails from
	// anybody. It names the server that claims to have checked the mail; "" without one.
	AuthservIDs []string

	// Trials are the last mails of the operator, the newest first.
	Trials []trust.Trial
}

// Probe opens the mailbox read-only and checks its last mails as Scan would. It
// changes nothing: it uses EXAMINE instead of SELECT, and PEEK. Its errors are
// those of Open.
func (m Mailbox) Probe(ctx context.Context, f trust.Filter) (Probe, error) {
	s, err := m.open(ctx, nil, &imap.SelectOptions{ReadOnly: true})
	if err != nil {
		return Probe{}, fmt.Errorf("open mailbox %s at %s: %w", m.name(), m.Addr, cause(ctx, err))
	}
	defer s.Close()
	stop := closeOnDone(ctx, s.conn)
	defer stop()
	found, err := s.probe(ctx, f)
	if err != nil {
		return found, fmt.Errorf("probe mailbox %s at %s: %w", m.name(), m.Addr, cause(ctx, err))
	}
	return found, nil
}

func (s *Session) probe(ctx context.Context, f trust.Filter) (Probe, error) {
	found := Probe{Mails: s.exists}
	s.mailbox.startPhase(s.conn)
	caps, err := s.client.Capability().Wait()
	if err != nil {
		return found, fmt.Errorf("capability: %w", err)
	}
	for c := range caps {
		found.Caps = append(found.Caps, string(c))
	}
	slices.Sort(found.Caps)
	if s.exists == 0 {
		return found, nil
	}

	var last imap.SeqSet
	last.AddRange(max(s.exists, probeHeads)-probeHeads+1, s.exists)
	heads, err := s.heads(last, message.MaxHeader, &imap.FetchItemBodySection{
		Specifier: imap.PartSpecifierHeader, Peek: true,
		HeaderFields: []string{"From", "Authentication-Results"},
	}, nil)
	if err != nil {
		return found, fmt.Errorf("fetch headers: %w", err)
	}
	var operators imap.UIDSet
	wanted := probeTrials
	for _, h := range slices.Backward(heads) {
		if h.at.After(found.Newest) {
			found.Newest = h.at
		}
		found.AuthservIDs = append(found.AuthservIDs, trust.TopAuthservID(h.raw))
		if wanted > 0 && f.FromOperator(message.ParseHeader(h.raw)) {
			operators.AddNum(imap.UID(h.uid))
			wanted--
		}
	}
	if len(operators) == 0 {
		return found, nil
	}
	found.Trials, err = s.trials(ctx, f, operators)
	return found, err
}

// trials checks mails of the operator.
func (s *Session) trials(ctx context.Context, f trust.Filter, uids imap.UIDSet) ([]trust.Trial, error) {
	section, limit := &imap.FetchItemBodySection{Specifier: imap.PartSpecifierHeader, Peek: true}, int64(message.MaxHeader)
	if f.Require == trust.RequireDMARC {
		section.Specifier, limit = imap.PartSpecifierNone, probeMail
		section.Partial = &imap.SectionPartial{Size: probeMail}
	}
	heads, err := s.heads(uids, limit, section, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch mails of the operator: %w", err)
	}
	var trials []trust.Trial
	for _, h := range slices.Backward(heads) {
		s.mailbox.startPhase(s.conn) // the DNS may be slow
		trials = append(trials, f.Try(ctx, h.raw, h.size, h.at, limit))
	}
	return trials, nil
}

// ProbeSender logs in as OpenSender does, with the same errors, and sends QUIT. It returns the
// login methods that the server offers. It sends no mail.
func (s Server) ProbeSender(ctx context.Context) (auth string, err error) {
	c, err := s.OpenSender(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_, auth = c.client.Extension("AUTH")
	return plain.OneLine(auth, 200), nil
}
