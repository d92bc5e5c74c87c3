package react

import "encoding/json"

// Kept are the members of an answer with calls that mean nothing to us, and that its server may
// want back with the results of the calls: reasoning_content, extra_content, thought_signature,
// the thinking blocks of the Messages API. They go to the same model at the same address only.
type Kept struct {
	From    string            `json:"from"`
	Message members           `json:"message,omitempty"`
	Calls   []KeptCall        `json:"calls,omitempty"`  // of each call, in their order
	Blocks  []json.RawMessage `json:"blocks,omitempty"` // of the Messages API, before the text
}

// KeptCall holds the members of one call, and of its function.
type KeptCall struct {
	Call     members `json:"call,omitempty"`
	Function members `json:"function,omitempty"`
}

// fromServer returns what is kept of an answer of a model at an address, or nil.
func (k Kept) fromServer(from string) *Kept {
	some := len(k.Message) > 0 || len(k.Blocks) > 0
	for _, c := range k.Calls {
		some = some || len(c.Call) > 0 || len(c.Function) > 0
	}
	if !some {
		return nil
	}
	k.From = from
	return &k
}

// forServer returns what goes back to a model at an address.
func (k *Kept) forServer(from string) Kept {
	if k == nil || k.From != from {
		return Kept{}
	}
	return *k
}

// size returns the length in bytes.
func (k *Kept) size() (n int) {
	if k == nil {
		return 0
	}
	sum := func(m members) {
		for name, value := range m {
			n += len(name) + len(value)
		}
	}
	sum(k.Message)
	for _, c := range k.Calls {
		sum(c.Call)
		sum(c.Function)
	}
	for _, b := range k.Blocks {
		n += len(b)
	}
	return n
}
