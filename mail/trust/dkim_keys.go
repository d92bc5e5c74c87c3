package trust

import (
	"context"
	"errors"
	"net"
	"sync"

	"agentstateloop/mail/message"
)

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
func (f Filter) KeysOf(head HeaderVerdict) []KeyName {
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
func (f Filter) WithoutKey(k KeyName) Verdict { return f.Unproved(invalid(k.domain, errNoKey)) }

// WithKeyCache returns f with a cache of DNS answers, for one scan.
func (f Filter) WithKeyCache() Filter {
	f.keys = &knownKeys{}
	return f
}

// KeyAbsent reports whether the DNS answers that k does not exist. It is false if the DNS
// does not answer.
func (f Filter) KeyAbsent(ctx context.Context, k KeyName) bool {
	_, err := f.keys.lookup(k.inDNS(), func(name string) ([]string, error) { return f.resolver().LookupTXT(ctx, name) })
	return isNotFound(err)
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
