package cycle

import (
	"encoding/base64"

	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state/store"
)

// idKeys provides the key of our Message-IDs.
type idKeys struct {
	core
	dry bool // write no file
}

// filter returns the filter of m as a poll uses it, with the key.
func (k idKeys) filter(m *Mail) (f trust.Filter, err error) {
	f = m.Filter
	f.IDKey, err = k.key()
	return f, err
}

// MailFilter returns the filter as a poll would use it now. It changes nothing.
func (a *Agent) MailFilter() (trust.Filter, error) {
	keys := a.idKeys()
	keys.dry = true
	return keys.filter(a.Mail)
}

// key returns the key, and makes it if it does not exist yet. If dry is set, it makes one up
// without storing it.
func (k idKeys) key() (message.IDKey, error) {
	var kept store.IDKey
	var err error
	if k.dry {
		kept, err = k.store.PeekIDKey(k.now())
	} else {
		kept, err = k.store.IDKey(k.now())
	}
	if err != nil {
		return message.IDKey{}, err
	}
	k.secrets.Learn(k.store.Path(store.IDKeyFile), base64.StdEncoding.EncodeToString(kept.Secret))
	return message.IDKey{Secret: kept.Secret}, nil
}
