package mail

import "sync"

// maxKnownKeys is the number of answers that a scan keeps.
const maxKnownKeys = 1000

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
