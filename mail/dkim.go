package mail

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"time"

	"agentstateloop/mail/message"

	"github.com/emersion/go-msgauth/dkim"
)

// Limits on a mail whose signature is verified here.
const (
	maxSignatures = 10                 // are looked at, from the top
	maxUnverified = 24 * time.Hour     // it waits for its key, from its arrival on
	maxTravel     = 7 * 24 * time.Hour // between its Date and its arrival
)

// singleFields are fields that a mail has once (RFC 5322 section 3.6), or whose
// second would be read differently by different readers. A signature covers one
// of them, so that a second is somebody else's.
var singleFields = []string{
	"from", "sender", "reply-to", "to", "cc", "date", "subject", "message-id", "in-reply-to", "references",
	"mime-version", "content-type", "content-transfer-encoding",
}

// signedFields is what a signature must cover whatever else it does. The body always
// is, to its end: a signature with "l=" is refused.
var signedFields = []string{"from", "date", "subject"}

// signatureProof verifies the DKIM signatures of the mail that read gives from
// its first byte on, whose header has fields (RFC 6376). It gives "" for reason
// if one is valid and proves that from wrote the mail:
//
//   - its d= is the domain of from or one above it, whose owner decides what is
//     below anyway. A domain below proves nothing, nor does any other that DMARC
//     would call aligned: which those are is known to a list only that ages in
//     a binary.
//   - it covers From, Date, Subject and the whole body, and what else makes the
//     mail one for this agent, see answers.
//   - it has not expired, and the mail arrived within maxTravel of its Date, so
//     that whoever keeps an old mail cannot send it again when its digest is
//     forgotten.
//
// Where a key could not be looked up, and no other did, it gives an
// *unprovenError.
func (f Filter) signatureProof(ctx context.Context, fields []message.Field, m *Message, from string, read io.Reader) (reason string, err error) {
	if reason := replayable(fields, m.At); reason != "" {
		return reason, nil
	}
	keys := keyLookup{ctx: ctx, resolver: f.resolver(), from: message.Domain(from)}
	found, err := dkim.VerifyWithOptions(read, &dkim.VerifyOptions{LookupTXT: keys.txt, MaxVerifications: maxSignatures})
	if err != nil && !errors.Is(err, dkim.ErrTooManySignatures) {
		return "", err
	}
	reason = "no DKIM signature"
	if len(found) > 0 {
		reason = "no DKIM signature of " + keys.from
	}
	for _, v := range found {
		switch {
		case !aligned(v.Domain, keys.from):
			continue
		case v.Err != nil:
			reason = fmt.Sprintf("the DKIM signature of %s is not valid: %s", oneLine(v.Domain, 100), oneLine(v.Err.Error(), 200))
			continue
		}
		if missing := f.unsigned(fields, m.Header, v.HeaderKeys); missing != "" {
			reason = fmt.Sprintf("the DKIM signature of %s does not cover %s", v.Domain, missing)
			continue
		}
		return "", nil
	}
	if err := keys.temporaryError(); err != nil {
		return "", &unprovenError{err}
	}
	return reason, nil
}

// replayable finds what a signature does not rule out.
func replayable(fields []message.Field, arrived time.Time) (reason string) {
	for _, name := range singleFields {
		if n := len(message.Values(fields, name)); n > 1 {
			return fmt.Sprintf("%d %s fields", n, name)
		}
	}
	for _, name := range signedFields {
		if len(message.Values(fields, name)) == 0 {
			return "no " + name + " field"
		}
	}
	date, err := mail.ParseDate(strings.TrimSpace(message.Values(fields, "date")[0]))
	if err != nil {
		return evidence("Date is no date", message.Values(fields, "date")[0])
	}
	if arrived.Sub(date).Abs() > maxTravel {
		return fmt.Sprintf("dated %s, and it arrived on %s", date.UTC().Format(time.DateOnly), arrived.UTC().Format(time.DateOnly))
	}
	return ""
}

// unsigned names a field that a signature over keys would have to cover.
func (f Filter) unsigned(fields []message.Field, h message.Header, keys []string) string {
	covers := func(name string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, name) })
	}
	for _, name := range signedFields {
		if !covers(name) {
			return name
		}
	}
	if f.callsHandle(h.Subject) {
		return ""
	}
	// It is for us as an answer only, and that must not be somebody's addition.
	for _, name := range []string{"in-reply-to", "references"} {
		if len(message.Values(fields, name)) > 0 && !covers(name) {
			return name + ", and the subject does not call @" + f.Handle
		}
	}
	return ""
}

// aligned says whether the signing domain d speaks for the domain from, an ASCII
// domain: it is the same, or one above it.
func aligned(d, from string) bool {
	d, ok := message.ASCIIDomain(d)
	return ok && (d == from || strings.HasSuffix(from, "."+d))
}

// resolver is the one that [trust] resolver names, or the system's.
func (f Filter) resolver() *net.Resolver {
	if f.Resolver == "" {
		return net.DefaultResolver
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, f.Resolver)
	}}
}

// keyLookup gets the keys of one mail's signatures, for go-msgauth, several at a
// time.
type keyLookup struct {
	ctx      context.Context
	resolver *net.Resolver
	from     string // only for its signatures is anything asked

	mu  sync.Mutex
	err error // the first temporary one
}

// txt gives the TXT records of name. No stranger's domain is asked: that would
// tell its owner when his mail is read.
func (k *keyLookup) txt(name string) ([]string, error) {
	const below = "._domainkey."
	i := strings.LastIndex(name, below)
	if i < 0 || !aligned(name[i+len(below):], k.from) {
		return nil, errors.New("a domain that does not speak for From")
	}
	d, _ := message.ASCIIDomain(name[i+len(below):])
	// With the dot at its end no search list of this machine is gone through.
	records, err := k.resolver.LookupTXT(k.ctx, name[:i]+below+d+".")
	if err == nil {
		return records, testKey(records)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return nil, errors.New("there is none in the DNS")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = fmt.Errorf("look up a DKIM key: %w", err)
	}
	return nil, err
}

func (k *keyLookup) temporaryError() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// testKey refuses a key whose owner only tries it out: mail signed with it is to
// be taken as unsigned (RFC 6376 section 3.6.1, t=y).
func testKey(records []string) error {
	for _, r := range records {
		for tag := range strings.SplitSeq(r, ";") {
			name, flags, _ := strings.Cut(tag, "=")
			if strings.TrimSpace(name) != "t" {
				continue
			}
			for flag := range strings.SplitSeq(flags, ":") {
				if strings.TrimSpace(flag) == "y" {
					return errors.New("its key is marked as a test (t=y)")
				}
			}
		}
	}
	return nil
}

// signedDigest recognises a copy of a mail by what its signature must cover, so
// that nothing a holder of the mail may change makes it another: From, Date,
// Subject and the body. Blanks are left out, since signatures do not keep them.
func signedDigest(fields []message.Field, body *bufio.Reader) (string, error) {
	sum := sha256.New()
	for _, name := range signedFields {
		for _, v := range message.Values(fields, name) {
			fmt.Fprintf(sum, "%s:%s\n", name, strings.Join(strings.Fields(v), " "))
		}
	}
	buf := make([]byte, 0, 32<<10)
	for {
		n, err := body.Read(buf[:cap(buf)])
		dense := slices.DeleteFunc(buf[:n], func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' })
		sum.Write(dense)
		if err == io.EOF {
			return "dkim+" + hex.EncodeToString(sum.Sum(nil)[:18]), nil
		}
		if err != nil {
			return "", err
		}
	}
}
