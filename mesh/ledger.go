package mesh

import (
	"fmt"
	"slices"
	"time"
)

// The limits of a mesh. Unproven senders may use half of each limit, so they cannot lock out
// proven senders.
const (
	maxPerMailbox = 1_000     // messages in one mailbox
	maxHeld       = 100_000   // messages in all mailboxes
	maxBytes      = 256 << 20 // of text in all mailboxes
	maxAgents     = 10_000    // registry rows
	maxSeen       = 200_000   // ids of posted messages
	keepSeen      = 7 * 24 * time.Hour

	maxUnprovenNudges = 8 // in one mailbox
)

// ledger is the content of a mesh. Only records change it, so a log of the records rebuilds it.
type ledger struct {
	halted    bool
	mailboxes map[string][]storedMessage // by handle; oldest first
	count     int
	bytes     int
	agents    map[string]Presence

	// seen holds the ids of posted messages, acknowledged or not. seenOrder holds them in order
	// of arrival, oldest first.
	seen      map[postKey]bool
	seenOrder []seenPost
}

// storedMessage is a message and its size in an answer, in bytes.
type storedMessage struct {
	Message
	size int
}

// postKey identifies a posting. A second posting with the same key is a repeat. Proven is part
// of the key, so that an unproven sender cannot use up the ids of a proven one.
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
	Message  *Message  `json:"message,omitempty"` // or a nudge
	Ack      *postKey  `json:"ack,omitempty"`
	Presence *Presence `json:"presence,omitempty"`
	Halted   *bool     `json:"halted,omitempty"`
	Seen     *seenPost `json:"seen,omitempty"`    // an id posted before a snapshot
	Version  int       `json:"version,omitempty"` // in the first line of the log
}

func newLedger() ledger {
	return ledger{mailboxes: map[string][]storedMessage{}, agents: map[string]Presence{}, seen: map[postKey]bool{}}
}

// apply applies the change r.
func (l *ledger) apply(r record) {
	switch {
	case r.Message != nil:
		l.add(*r.Message)
	case r.Ack != nil:
		l.remove(r.Ack.To, func(h storedMessage) bool { return h.postKey() == *r.Ack })
	case r.Presence != nil:
		l.agents[r.Presence.Handle] = *r.Presence
	case r.Halted != nil:
		l.halted = *r.Halted
	case r.Seen != nil:
		l.markSeen(*r.Seen)
	}
}

// add appends a message. A new nudge replaces the earlier nudge of its sender but keeps its own
// id, so that a late acknowledgement of the earlier nudge does not remove it.
func (l *ledger) add(m Message) {
	if m.Kind == KindNudge {
		l.replaceNudge(m)
	} else {
		l.markSeen(seenPost{postKey: storedMessage{Message: m}.postKey(), At: m.SentAt})
	}
	body, _ := encode(m) // encoding strings, a bool and a time cannot fail
	l.mailboxes[m.To] = append(l.mailboxes[m.To], storedMessage{Message: m, size: len(body)})
	l.count++
	l.bytes += len(body)
}

// replaceNudge removes the nudge that the nudge m replaces: the one of the same sender, or the
// oldest if there are too many unproven nudges. Only its own sender can replace a proven nudge,
// because the recipient may reject the replacement.
func (l *ledger) replaceNudge(m Message) {
	same := func(h storedMessage) bool { return h.Kind == KindNudge && h.From == m.From && h.Proven == m.Proven }
	unproven := func(h storedMessage) bool { return h.Kind == KindNudge && !h.Proven }
	mailbox, unprovenCount := l.mailboxes[m.To], 0
	for _, h := range mailbox {
		if unproven(h) {
			unprovenCount++
		}
	}
	switch {
	case slices.ContainsFunc(mailbox, same):
		l.remove(m.To, same)
	case !m.Proven && unprovenCount >= maxUnprovenNudges:
		l.remove(m.To, unproven)
	}
}

// remove removes the first message of a mailbox for which match returns true.
func (l *ledger) remove(handle string, match func(storedMessage) bool) {
	mailbox := l.mailboxes[handle]
	i := slices.IndexFunc(mailbox, match)
	if i < 0 {
		return
	}
	l.count--
	l.bytes -= mailbox[i].size
	if mailbox = slices.Delete(mailbox, i, i+1); len(mailbox) == 0 {
		delete(l.mailboxes, handle)
		return
	}
	l.mailboxes[handle] = mailbox
}

// markSeen keeps an id for a week, and at most the newest maxSeen ids. A sender repeats a
// message for 5 days (docs/design.md, "The outbox").
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

// full returns which limit refuses m, and what the sender can do, or "". A full mailbox still accepts a
// nudge, because it holds few of them.
func (l *ledger) full(m Message) string {
	part, who := share(m.Proven), ""
	if part > 1 {
		who = " for senders without a token"
	}
	const later = "try again after they have read their mailboxes"
	switch {
	case m.Kind != KindNudge && len(l.mailboxes[m.To]) >= maxPerMailbox/part:
		return fmt.Sprintf("the mailbox of %s is full: it holds %d messages, and the limit%s is %d; try again after %s has read them", m.To, len(l.mailboxes[m.To]), who, maxPerMailbox/part, m.To)
	case l.count >= maxHeld/part:
		return fmt.Sprintf("the mesh is full: it holds %d messages for all agents, and the limit%s is %d; %s", l.count, who, maxHeld/part, later)
	case l.bytes+len(m.Text) > maxBytes/part:
		return fmt.Sprintf("the mesh is full: it holds %d MiB of text for all agents, and the limit%s is %d MiB; %s", l.bytes>>20, who, maxBytes/part>>20, later)
	}
	return ""
}

// share returns the number that divides each limit for a sender: 1 if the sender is proven, 2
// if not.
func share(proven bool) int {
	if proven {
		return 1
	}
	return 2
}

// oldest returns as many of the oldest messages of a mailbox as fit into one answer. If two
// senders used the same id, it returns the second message only after the first is acknowledged,
// because an acknowledgement does not name the sender.
func (l *ledger) oldest(handle string) []Message {
	var messages []Message
	size := len(`{"halted":false,"messages":[]}`)
	ids := map[string]bool{}
	for _, h := range l.mailboxes[handle] {
		if ids[h.ID] {
			continue
		}
		if size += h.size + len(","); len(messages) == MaxMessages || size > MaxMailbox {
			break
		}
		ids[h.ID] = true
		messages = append(messages, h.Message)
	}
	return messages
}

// messages returns every waiting message.
func (l *ledger) messages() []Message {
	var all []Message
	for _, mailbox := range l.mailboxes {
		for _, h := range mailbox {
			all = append(all, h.Message)
		}
	}
	return all
}

// find returns the message that an acknowledgement of id refers to.
func (l *ledger) find(handle, id string) (storedMessage, bool) {
	for _, h := range l.mailboxes[handle] {
		if h.ID == id {
			return h, true
		}
	}
	return storedMessage{}, false
}

func (h storedMessage) postKey() postKey {
	return postKey{From: h.From, Proven: h.Proven, To: h.To, ID: h.ID}
}
