package mail

import (
	"context"
	"errors"
	"net"
	"sync"

	"agentstateloop/mail/message"
)

const (
	maxKnownKeys = 1000 // answers that a scan keeps
	maxQuestions = 32   // that wait for their answers at the same time
)

// findKeys asks for the keys by which the mails of heads may be proved, many at
// the same time, and rejects those mails for which there is none. So thousands of
// forged mails, each with a selector of its own, cost no bodies, and not much
// more time than one.
//
// A question without an answer rejects nothing: it is for the judgement of the
// body.
func (sc *scanner) findKeys(heads []head) {
	sc.conn.paced.pause() // it is read all the time, and must outlast the questions
	defer sc.conn.paced.resume()
	ctx, cancel := context.WithTimeout(sc.ctx, sc.mailbox.timeout())
	defer cancel()
	absent := sc.absentKeys(ctx, heads)
	for i := range heads {
		h := &heads[i]
		if len(h.keys) == 0 || !allIn(h.keys, absent) {
			continue
		}
		rejected := *h.message
		v := sc.filter.unproved(invalid(h.keys[0].domain, errNoKey))
		rejected.Gate, rejected.Reason, rejected.Ask = v.gate, v.reason, v.ask
		h.rejected = &rejected
	}
}

// absentKeys returns those keys of heads that the DNS says do not exist.
func (sc *scanner) absentKeys(ctx context.Context, heads []head) map[keyName]bool {
	var mu sync.Mutex
	var asking sync.WaitGroup
	defer asking.Wait()
	free := make(chan struct{}, maxQuestions)
	absent, asked := map[keyName]bool{}, map[keyName]bool{}
	resolver := sc.filter.resolver()
	for _, h := range heads {
		for _, k := range h.keys {
			if asked[k] || sc.late() || ctx.Err() != nil {
				continue
			}
			asked[k] = true
			free <- struct{}{}
			asking.Go(sc.mailbox.Secrets.Guarded(func() {
				defer func() { <-free }()
				_, err := sc.filter.keys.lookup(k.inDNS(), func(name string) ([]string, error) { return resolver.LookupTXT(ctx, name) })
				if isNotFound(err) {
					mu.Lock()
					defer mu.Unlock()
					absent[k] = true
				}
			}))
		}
	}
	return absent
}

func allIn(keys []keyName, absent map[keyName]bool) bool {
	for _, k := range keys {
		if !absent[k] {
			return false
		}
	}
	return true
}

// keyName names the key of a signature.
type keyName struct{ selector, domain string }

// inDNS returns where the key is. The dot at the end keeps the resolver from
// trying its search list.
func (k keyName) inDNS() string {
	d, _ := message.ASCIIDomain(k.domain)
	return k.selector + belowDomain + d + "."
}

// keysOf returns the keys of the signatures that may prove a mail, as its header
// says. There are none unless signatures are verified here.
func (f Filter) keysOf(head headerVerdict) []keyName {
	if f.Verify != VerifyDKIM || len(head.proofs) == 0 {
		return nil
	}
	var keys []keyName
	signatures := signatureFields(head.fields)
	for _, p := range head.proofs {
		s := signatures[p.at].signature
		keys = append(keys, keyName{selector: s.selector, domain: s.domain})
	}
	return keys
}

// errNoKey is the error of a signature whose key does not exist.
var errNoKey = errors.New("its key is not in the DNS")

// isNotFound reports whether the DNS answered, and has no such name.
func isNotFound(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// knownKeys are the answers of the DNS to one scan, its failures too. So thousands
// of forged mails that name one key cost one question, and a name server that is
// away is waited for once.
type knownKeys struct {
	mu      sync.Mutex
	answers map[string]keyAnswer // by name
}

type keyAnswer struct {
	records []string
	err     error
}

// lookup returns what ask returned for name the first time. A nil knownKeys asks
// each time. Questions of one mail may overlap; then each is asked.
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
