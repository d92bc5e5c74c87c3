package trust

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"

	"github.com/emersion/go-msgauth/dkim"
)

// The limits on verifying signatures here.
const (
	maxSignatures = 10                 // signatures verified, from the top
	maxTravel     = 7 * 24 * time.Hour // between Date and arrival, in either order
)

// singleFields are the fields that a mail has only once (RFC 5322 section 3.6), or whose second
// occurrence readers would treat differently. A signature covers one of them, so a second one
// comes from somebody else.
var singleFields = []string{
	"from", "sender", "reply-to", "to", "cc", "date", "subject", "message-id", "in-reply-to", "references",
	"mime-version", "content-type", "content-transfer-encoding",
}

// signedFields are the fields that every accepted signature must cover. The
// body is always covered to its end: a signature with "l=" is rejected.
var signedFields = []string{"from", "date", "subject"}

// signatureProofs returns the DKIM signatures (RFC 6376) of a mail that, if valid, prove that
// from wrote it, or the reason if all signatures fail one of these conditions:
//
//   - d= is the domain of from or a parent domain, whose owner controls the domains below
//     it anyway. A subdomain does not count. Other domains that DMARC would call aligned do not
//     count either: only a list names them, and a list in a binary ages.
//   - It covers From, Date, Subject and the whole body, see weakness.
func (f *Filter) signatureProofs(fields []message.Field, from string) (proofs []proof, reason string) {
	reason = "no DKIM signature"
	for i, s := range signatureFields(fields) {
		if i == maxSignatures {
			break
		}
		weak := ""
		switch {
		case !aligned(s.domain, message.Domain(from)):
			weak = errNoSignature + message.Domain(from)
		case s.err != nil:
			weak = evidence(s.err.Error(), s.domain)
		default:
			weak = f.weakness(s.signature, fields, from)
		}
		switch {
		case weak == "":
			proofs = append(proofs, proof{at: i, covers: []coverage{s.covers()}})
		case reason == "no DKIM signature" || !strings.HasPrefix(weak, errNoSignature):
			reason = weak
		}
	}
	if len(proofs) > 0 {
		return proofs, ""
	}
	return nil, reason
}

// errNoSignature begins the reason for a mail that only other domains have signed.
const errNoSignature = "no DKIM signature of "

// validSignatures verifies the signatures of a mail. It returns those proofs of its header that
// are valid, the result for each signature, and the reason if all proofs are invalid. If a key
// could not be looked up and no other key proved the mail, the error is an *UnprovenError.
func (f *Filter) validSignatures(ctx context.Context, head HeaderVerdict, whole io.Reader) (proofs []proof, checked []error, reason string, err error) {
	keys := keyLookup{ctx: ctx, filter: f, from: message.Domain(head.from)}
	found, err := dkim.VerifyWithOptions(whole, &dkim.VerifyOptions{LookupTXT: keys.txt, MaxVerifications: maxSignatures})
	if err != nil && !errors.Is(err, dkim.ErrTooManySignatures) {
		return nil, nil, "", err
	}
	for _, v := range found {
		checked = append(checked, v.Err)
	}
	signatures := signatureFields(head.fields)
	reason = "the signatures of its header are not in the mail" // unless one of them was verified
	for _, p := range head.proofs {
		if p.at >= len(found) {
			continue
		}
		v, s := found[p.at], signatures[p.at]
		if v.Err == nil && keys.isStrict(s.signature) && !sameDomains(s.domain, s.identity, keys.from) {
			v.Err = errors.New("its key is only for the domain itself (t=s)")
		}
		if v.Err == nil && (stripBlanks(v.Domain) != s.domain || len(v.HeaderKeys) != len(s.fields)) {
			v.Err = errSignature
		}
		checked[p.at] = v.Err
		if v.Err == nil {
			proofs = append(proofs, p)
			continue
		}
		reason = invalidSignature(s.domain, v.Err)
	}
	if len(proofs) > 0 {
		return proofs, checked, "", nil
	}
	if err := keys.temporaryError(); err != nil {
		return nil, nil, "", &UnprovenError{err}
	}
	return nil, checked, reason, nil
}

// invalidSignature returns the reason for an invalid signature of domain.
func invalidSignature(domain string, err error) string {
	return fmt.Sprintf("the DKIM signature of %s is not valid: %s", plain.OneLine(domain, 100), plain.OneLine(err.Error(), 200))
}

// aligned reports whether the signing domain d speaks for from, an ASCII
// domain: it is the same domain or a parent domain.
func aligned(d, from string) bool {
	d, ok := message.ASCIIDomain(d)
	return ok && (d == from || strings.HasSuffix(from, "."+d))
}

// resolver returns the resolver that [trust] resolver names, or the system's.
func (f *Filter) resolver() *net.Resolver {
	if f.Resolver == "" {
		return net.DefaultResolver
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, f.Resolver)
	}}
}

// belowDomain separates the selector from the domain in the DNS name of a key.
const belowDomain = "._domainkey."

// keyLookup looks up the keys of the signatures of one mail. go-msgauth looks up several at a
// time.
type keyLookup struct {
	ctx    context.Context
	filter *Filter
	from   string // the domain of From: only its keys and those of its parents are looked up

	mu     sync.Mutex
	err    error           // the first temporary error
	strict map[string]bool // names of the keys marked t=s
}

// txt returns the TXT records of name. It never queries a stranger's domain: the query would
// show its owner when the mail is read.
func (k *keyLookup) txt(name string) ([]string, error) {
	i := strings.LastIndex(name, belowDomain)
	if i < 0 || !aligned(name[i+len(belowDomain):], k.from) {
		return nil, errors.New("a domain that is not From's")
	}
	at := KeyName{selector: name[:i], domain: name[i+len(belowDomain):]}.inDNS()
	records, err := k.filter.lookUp(k.ctx, at)
	if err == nil {
		if keyFlag(records, "s") {
			k.noteStrict(name)
		}
		if keyFlag(records, "y") {
			return records, errors.New("its key is marked as a test key (t=y)")
		}
		return records, nil
	}
	if isNotFound(err) {
		return nil, errNoKey
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.err != nil:
	case errors.Is(err, ErrOffline):
		k.err = err
	default:
		k.err = fmt.Errorf("look up a DKIM key: %w", err)
	}
	return nil, err
}

func (k *keyLookup) temporaryError() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// noteStrict records that the key of that name requires i= to have exactly the domain of d=
// (RFC 6376 section 3.6.1, t=s).
func (k *keyLookup) noteStrict(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.strict == nil {
		k.strict = map[string]bool{}
	}
	k.strict[name] = true
}

// isStrict reports whether the key of s is marked t=s.
func (k *keyLookup) isStrict(s signature) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.strict[s.selector+belowDomain+s.domain]
}

// sameDomains reports whether all domains are the same.
func sameDomains(first string, others ...string) bool {
	return !slices.ContainsFunc(others, func(d string) bool { return !sameDomain(first, d) })
}

// keyFlag reports whether a key has this flag in t= (RFC 6376 section 3.6.1). With "y" a domain
// declares that it is only testing the key, and mail signed with it counts as unsigned.
func keyFlag(records []string, flag string) bool {
	for _, r := range records {
		for tag := range strings.SplitSeq(r, ";") {
			name, flags, _ := strings.Cut(tag, "=")
			if strings.TrimSpace(name) != "t" {
				continue
			}
			for f := range strings.SplitSeq(flags, ":") {
				if strings.TrimSpace(f) == flag {
					return true
				}
			}
		}
	}
	return false
}

// signedDigest returns a digest of the content that the signature must cover: From, Date,
// Subject and the body. So no change that a holder of the mail can make turns it into another
// mail. The digest leaves out blanks, because signatures do not protect them.
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

const maxKnownKeys = 1000 // answers cached by a scan

// KeyName names the key of a signature.
type KeyName struct{ selector, domain string }

// inDNS returns the DNS name of the key. The dot at the end keeps the resolver from trying its
// search list.
func (k KeyName) inDNS() string {
	d, _ := message.ASCIIDomain(k.domain)
	return k.selector + belowDomain + d + "."
}

// KeysOf returns the keys of the signatures that may prove a mail according to its header. It
// returns nil unless signatures are verified here.
func (f *Filter) KeysOf(head HeaderVerdict) []KeyName {
	if f.Verify != VerifyDKIM || len(head.proofs) == 0 {
		return nil
	}
	var keys []KeyName
	signatures := signatureFields(head.fields)
	for _, p := range head.proofs {
		s := signatures[p.at].signature
		keys = append(keys, KeyName{selector: s.selector, domain: s.domain})
	}
	return keys
}

// errNoKey is the error of a signature whose key does not exist.
var errNoKey = errors.New("its key is not in the DNS")

// WithoutKey returns the verdict on a mail whose signing key does not exist.
func (f *Filter) WithoutKey(k KeyName) Verdict {
	return f.Unproved(invalidSignature(k.domain, errNoKey))
}

// WithKeyCache returns f with a cache of DNS answers, for one scan.
func (f Filter) WithKeyCache() Filter {
	f.keys = &knownKeys{}
	return f
}

// KeyAbsent reports whether the DNS answers that k does not exist. It is false if the DNS
// does not answer.
func (f *Filter) KeyAbsent(ctx context.Context, k KeyName) bool {
	_, err := f.lookUp(ctx, k.inDNS())
	return isNotFound(err)
}

// ErrOffline is the error of a key that was not looked up, see Filter.Offline.
var ErrOffline = errors.New("its DKIM key was not looked up (--offline)")

// lookUp returns the TXT records of a name.
func (f *Filter) lookUp(ctx context.Context, name string) ([]string, error) {
	if f.Offline {
		return nil, ErrOffline
	}
	return f.keys.lookup(name, func(name string) ([]string, error) { return f.resolver().LookupTXT(ctx, name) })
}

// isNotFound reports whether the DNS answered that the name does not exist.
func isNotFound(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// knownKeys caches the answers of the DNS to one scan, including failures. So thousands of
// forged mails that name one key cost one query, and a scan waits only once for a name server
// that is down.
type knownKeys struct {
	mu      sync.Mutex
	answers map[string]keyAnswer // by name
}

type keyAnswer struct {
	records []string
	err     error
}

// lookup returns the result of the first ask for name. A nil knownKeys asks each time.
// Overlapping lookups for one mail each ask.
func (k *knownKeys) lookup(name string, ask func(name string) ([]string, error)) ([]string, error) {
	if k == nil {
		return ask(name)
	}
	k.mu.Lock()
	known, ok := k.answers[name]
	k.mu.Unlock()
	if ok {
		return known.records, known.err
	}
	records, err := ask(name)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.answers == nil {
		k.answers = map[string]keyAnswer{}
	}
	if len(k.answers) < maxKnownKeys {
		k.answers[name] = keyAnswer{records, err}
	}
	return records, err
}
