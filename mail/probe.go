package mail

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentstateloop/mail/message"

	"github.com/emersion/go-imap/v2"
)

const (
	probeHeads  = 100     // last mails, from anybody, of which the header is read
	probeTrials = 5       // last mails of the operator of which the proof is tried
	probeMail   = 1 << 20 // bytes; the body of a longer mail is not looked at
)

// Probe describes a mailbox as a look at it shows it.
type Probe struct {
	Caps  []string // of the server after the login, sorted
	Mails uint32   // in the mailbox

	// Newest is the latest arrival by the clock of the server. It is zero for an
	// empty mailbox.
	Newest time.Time

	// AuthservIDs has, for each of the last mails from anybody, the topmost
	// authserv-id (RFC 8601), which names the server that claims to have checked
	// it; "" if it has none.
	AuthservIDs []string

	// Trials are the last mails of the operator, the newest first.
	Trials []Trial
}

// Trial describes what the gate would do with one mail of the operator.
type Trial struct {
	At         time.Time // INTERNALDATE
	From       string
	ForUs      bool   // it calls the agent, or answers a mail of the agent
	AuthservID string // the topmost authserv-id; "" if it has none

	// Gate is "" for mail that would come in if it is for us. Otherwise it is
	// the gate that would reject the mail, and Reason is the evidence.
	Gate, Reason string

	// Signing is what the signature covers that proves who sent the mail; nil if
	// nothing does. SPFAlone is true if the server proves it by SPF and by no
	// signature, and Doubtful if it is not signed how the body is to be read, and
	// there is more than one way.
	Signing  *Signing
	SPFAlone bool
	Doubtful bool

	// NoAnswer is why the DNS has not said which key signs the mail: nobody knows
	// yet whether the signature is valid.
	NoAnswer error
}

// Probe opens the mailbox read-only and checks its last mails as Scan would. It
// changes nothing: it uses EXAMINE instead of SELECT, and PEEK. Its errors are
// those of Open.
func (m Mailbox) Probe(ctx context.Context, f Filter) (Probe, error) {
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

func (s *Session) probe(ctx context.Context, f Filter) (Probe, error) {
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
	var theirs imap.UIDSet
	wanted := probeTrials
	for _, h := range slices.Backward(heads) {
		if h.at.After(found.Newest) {
			found.Newest = h.at
		}
		found.AuthservIDs = append(found.AuthservIDs, topAuthservID(h.raw))
		if wanted > 0 && f.fromOperator(message.ParseHeader(h.raw)) {
			theirs.AddNum(imap.UID(h.uid))
			wanted--
		}
	}
	if len(theirs) == 0 {
		return found, nil
	}
	found.Trials, err = s.trials(ctx, f, theirs)
	return found, err
}

// trials checks mails of the operator.
func (s *Session) trials(ctx context.Context, f Filter, uids imap.UIDSet) ([]Trial, error) {
	section, most := &imap.FetchItemBodySection{Specifier: imap.PartSpecifierHeader, Peek: true}, int64(message.MaxHeader)
	if f.Require == RequireDMARC {
		section.Specifier, most = imap.PartSpecifierNone, probeMail
		section.Partial = &imap.SectionPartial{Size: probeMail}
	}
	heads, err := s.heads(uids, most, section, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch mails of the operator: %w", err)
	}
	var trials []Trial
	for _, h := range slices.Backward(heads) {
		s.mailbox.startPhase(s.conn) // the DNS may be slow
		trials = append(trials, f.try(ctx, h, most))
	}
	return trials, nil
}

// try checks one mail of the operator. For one that is not for us it still
// reports whether the sender is proved.
func (f Filter) try(ctx context.Context, h head, most int64) Trial {
	header := message.ParseHeader(h.raw)
	t := Trial{At: h.at, From: header.From, AuthservID: topAuthservID(h.raw)}
	t.ForUs, t.Gate, t.Reason = f.gate(header, h.size)
	if t.Gate != "" || f.Require != RequireDMARC {
		return t
	}
	raw, err := cutHeader(bufio.NewReader(bytes.NewReader(h.raw)))
	if err != nil {
		t.Gate, t.Reason = GateTrust, err.Error()
		return t
	}
	fields, from, gate, reason := soleAuthor(raw, header)
	if gate != "" {
		t.Gate, t.Reason = gate, reason
		return t
	}
	head := f.judgeProof(fields, from, h.at)
	t.SPFAlone = f.bySPFAlone(fields, from)
	if len(head.proofs) > 0 {
		t.Signing = head.proofs[0].signing(fields)
	}
	if head.gate == "" && t.ForUs {
		head = f.judgeBinding(head, &Message{At: h.at, Header: header})
	}
	v := head.verdict
	switch {
	case v.gate != "":
	case h.size > most && f.Verify != VerifyDKIM:
	case h.size > most:
		v = f.unproved(fmt.Sprintf("%d bytes: the signature of a mail this long is not verified here", h.size))
	default:
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		whole := func() (*bufio.Reader, error) { return bufio.NewReader(bytes.NewReader(h.raw)), nil }
		if v, _, err = f.judgeBody(ctx, head, whole); err != nil {
			v = f.unproved(err.Error())
			if u, ok := errors.AsType[*unprovenError](err); ok {
				t.NoAnswer = u.err
			}
		}
	}
	t.Gate, t.Reason = v.gate, v.reason
	t.Doubtful = v.doubtful
	if v.gate != "" && head.gate == "" && !t.Doubtful {
		t.Signing = nil // the signature is not valid
	}
	return t
}

// topAuthservID returns the authserv-id of the first Authentication-Results
// field, or "".
func topAuthservID(header []byte) string {
	for _, f := range message.Fields(header) {
		if f.Name == "authentication-results" {
			id, err := authserv(f.Value)
			if err != nil {
				return ""
			}
			return oneLine(id, 100)
		}
	}
	return ""
}

// ProbeSender logs in as OpenSender does, with the same errors, and sends QUIT.
// It returns the ways to log in that the server offers. It sends no mail.
func (s Server) ProbeSender(ctx context.Context) (auth string, err error) {
	c, err := s.OpenSender(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_, auth = c.client.Extension("AUTH")
	return oneLine(auth, 200), nil
}
