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
	maxSignatures = 10                 // signatures that are verified, from the top
	maxUnverified = 24 * time.Hour     // the wait for its key, from its arrival on
	maxTravel     = 7 * 24 * time.Hour // from its Date to its arrival, or the other way round
)

// singleFields are the fields that a mail has once (RFC 5322 section 3.6), or
// whose second occurrence readers would treat differently. A signature covers
// one of them, so a second one is somebody else's.
var singleFields = []string{
	"from", "sender", "reply-to", "to", "cc", "date", "subject", "message-id", "in-reply-to", "references",
	"mime-version", "content-type", "content-transfer-encoding",
}

// signedFields are the fields that every accepted signature must cover. The
// body is always covered to its end: a signature with "l=" is rejected.
var signedFields = []string{"from", "date", "subject"}

// signatureProof verifies the DKIM signatures (RFC 6376) of a mail. read
// returns the mail from its first byte on, and fields are those of its header.
// The reason is "" if one signature is valid and proves that from wrote the
// mail:
//
//   - Its d= is the domain of from or a parent domain, whose owner decides what is
//     below it anyway. A subdomain proves nothing. Nor does any other domain that
//     DMARC would call aligned: only a list tells which those are, and a list
//     ages in a binary.
//   - It covers From, Date, Subject and the whole body, and whatever else makes
//     the mail one for this agent, see unsigned.
//   - It has not expired.
//
// If a key could not be looked up and no other key proved the mail, the error
// is an *unprovenError.
func (f Filter) signatureProof(ctx context.Context, fields []message.Field, m *Message, from string, read io.Reader) (reason string, err error) {
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

// replayable returns the reason if the mail could be a changed or an old one in
// spite of its signature.
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
		return evidence("Date is not a date", message.Values(fields, "date")[0])
	}
	if arrived.Sub(date).Abs() > maxTravel {
		return fmt.Sprintf("dated %s, and it arrived on %s", date.UTC().Format(time.DateOnly), arrived.UTC().Format(time.DateOnly))
	}
	return ""
}

// unsigned returns the name of a field that a signature over keys fails to
// cover, or "".
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
	// It is for us only as an answer. A stranger must not be able to add that.
	for _, name := range []string{"in-reply-to", "references"} {
		if len(message.Values(fields, name)) > 0 && !covers(name) {
			return name + ", and the subject does not call @" + f.Handle
		}
	}
	return ""
}

// aligned reports whether the signing domain d speaks for from, an ASCII
// domain: it is the same domain or a parent domain.
func aligned(d, from string) bool {
	d, ok := message.ASCIIDomain(d)
	return ok && (d == from || strings.HasSuffix(from, "."+d))
}

// resolver returns the resolver that [trust] resolver names, or that of the
// system.
func (f Filter) resolver() *net.Resolver {
	if f.Resolver == "" {
		return net.DefaultResolver
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, f.Resolver)
	}}
}

// keyLookup looks up the keys of the signatures of one mail. go-msgauth asks
// for several at a time.
type keyLookup struct {
	ctx      context.Context
	resolver *net.Resolver
	from     string // only keys of this domain are looked up

	mu  sync.Mutex
	err error // the first temporary error
}

// txt returns the TXT records of name. It asks for no stranger's domain: that
// would show its owner when the mail is read.
func (k *keyLookup) txt(name string) ([]string, error) {
	const below = "._domainkey."
	i := strings.LastIndex(name, below)
	if i < 0 || !aligned(name[i+len(below):], k.from) {
		return nil, errors.New("a domain that does not speak for From")
	}
	d, _ := message.ASCIIDomain(name[i+len(below):])
	// The dot at the end keeps the resolver from trying its search list.
	records, err := k.resolver.LookupTXT(k.ctx, name[:i]+below+d+".")
	if err == nil {
		return records, testKey(records)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return nil, errors.New("its key is not in the DNS")
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

// testKey returns an error for a key that its owner is only trying out. Mail
// signed with it counts as unsigned (RFC 6376 section 3.6.1, t=y).
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

// signedDigest returns a digest of what the signature must cover: From, Date,
// Subject and the body. So nothing that a holder of the mail can change makes
// it another mail. Blanks are left out, because signatures do not protect them.
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
