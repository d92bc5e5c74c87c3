package mesh

import (
	"slices"
	"time"
)

// What a mesh holds at most. A caller without proof may use half of each, so
// that it cannot shut out those who have it.
const (
	maxPerMailbox = 1_000     // messages of one mailbox
	maxHeld       = 100_000   // messages of all
	maxBytes      = 256 << 20 // of all
	maxAgents     = 10_000    // registry rows
	maxSeen       = 200_000   // ids remembered
	keepSeen      = 7 * 24 * time.Hour
)

// ledger is all that a mesh knows. It changes by records only, so that a log
// of them brings it back.
type ledger struct {
	halted    bool
	mailboxes map[string][]held // by handle; oldest first
	count     int
	bytes     int
	agents    map[string]Presence

	// seen remembers the ids that were posted, acknowledged or not; order has
	// them as they came, for forgetting.
	seen      map[postKey]bool
	seenOrder []seenPost
}

// held is a message and the bytes it takes in an answer.
type held struct {
	Message
	size int
}

// postKey is what makes two postings one: the sender's own id. An unproven
// sender's ids are no concern of the proven one of that name.
type postKey struct {
	From   string `json:"from"`
	Proven bool   `json:"proven"`
	To     string `json:"to"`
	ID     string `json:"id"`
}

type seenPost struct {
	postKey
	At time.Time `json:"at"`
}

// record is one change of the ledger; one field is set.
type record struct {
	Message  *Message  `json:"message,omitempty"` // a nudge too
	Ack      *postKey  `json:"ack,omitempty"`
	Presence *Presence `json:"presence,omitempty"`
	Halted   *bool     `json:"halted,omitempty"`
	Seen     *seenPost `json:"seen,omitempty"`    // an id that was posted
	Version  int       `json:"version,omitempty"` // the log's first line
}

func newLedger() ledger {
	return ledger{mailboxes: map[string][]held{}, agents: map[string]Presence{}, seen: map[postKey]bool{}}
}

// apply makes the change.
func (l *ledger) apply(r record) {
	switch {
	case r.Message != nil:
		l.add(*r.Message)
	case r.Ack != nil:
		l.remove(r.Ack.To, func(h held) bool { return h.postKey() == *r.Ack })
	case r.Presence != nil:
		l.agents[r.Presence.Handle] = *r.Presence
	case r.Halted != nil:
		l.halted = *r.Halted
	case r.Seen != nil:
		l.markSeen(*r.Seen)
	}
}

// add appends a message. Nudges coalesce: the new one takes the place of the
// one held, under its own id, so that an acknowledgement under way for the old
// one does not swallow it.
func (l *ledger) add(m Message) {
	if m.Kind == KindNudge {
		l.remove(m.To, func(h held) bool { return h.Kind == KindNudge })
	} else {
		l.markSeen(seenPost{postKey: held{Message: m}.postKey(), At: m.SentAt})
	}
	body, _ := encode(m) // strings, a bool and a time cannot fail
	l.mailboxes[m.To] = append(l.mailboxes[m.To], held{Message: m, size: len(body)})
	l.count++
	l.bytes += len(body)
}

// remove takes the first message that match names out of a mailbox.
func (l *ledger) remove(handle string, match func(held) bool) {
	box := l.mailboxes[handle]
	i := slices.IndexFunc(box, match)
	if i < 0 {
		return
	}
	l.count--
	l.bytes -= box[i].size
	if box = slices.Delete(box, i, i+1); len(box) == 0 {
		delete(l.mailboxes, handle)
		return
	}
	l.mailboxes[handle] = box
}

// markSeen keeps an id for a week, longer than any sender repeats itself
// (DESIGN 3: 5 days), and forgets the oldest above a bound.
func (l *ledger) markSeen(r seenPost) {
	if !l.seen[r.postKey] {
		l.seen[r.postKey] = true
		l.seenOrder = append(l.seenOrder, r)
	}
	for len(l.seenOrder) > maxSeen || r.At.Sub(l.seenOrder[0].At) > keepSeen {
		delete(l.seen, l.seenOrder[0].postKey)
		l.seenOrder = l.seenOrder[1:]
	}
}

// room says whether m may still come in. A nudge needs none in its mailbox,
// where at most one is held: a doorbell rings at a full house too.
func (l *ledger) room(m Message) bool {
	share := 2
	if m.Proven {
		share = 1
	}
	return (m.Kind == KindNudge || len(l.mailboxes[m.To]) < maxPerMailbox/share) &&
		l.count < maxHeld/share && l.bytes+len(m.Text) <= maxBytes/share
}

// oldest gives what a mailbox shows: as many of its oldest messages as fit an
// answer. Of two senders' messages under one id the second is shown when the
// first is acknowledged, since an acknowledgement names no sender.
func (l *ledger) oldest(handle string) []Message {
	var shown []Message
	size := len(`{"halted":false,"messages":[]}`)
	ids := map[string]bool{}
	for _, h := range l.mailboxes[handle] {
		if ids[h.ID] {
			continue
		}
		if size += h.size + len(","); len(shown) == MaxMessages || size > MaxMailbox {
			break
		}
		ids[h.ID] = true
		shown = append(shown, h.Message)
	}
	return shown
}

// find gives the message that an acknowledgement of id means.
func (l *ledger) find(handle, id string) (postKey, bool) {
	for _, h := range l.mailboxes[handle] {
		if h.ID == id {
			return h.postKey(), true
		}
	}
	return postKey{}, false
}

func (h held) postKey() postKey {
	return postKey{From: h.From, Proven: h.Proven, To: h.To, ID: h.ID}
}
