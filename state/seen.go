package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/order"
)

// seen reports whether a key or digest was accepted before. It renews the time of a known one,
// because its source may bring it again. A waiting message counts as seen even after its key was
// forgotten.
func (m *machine) seen(key string) bool {
	_, known := m.Seen[key]
	if !known && m.message(key) == nil {
		return false
	}
	m.noteSeen(key)
	return true
}

// noteSeen remembers a key or digest from now on.
func (m *machine) noteSeen(key string) {
	if key == "" {
		return
	}
	m.ownSeen()[key] = m.now.Unix()
}

// ownSeen returns the map of keys for a change. Most steps do not change it, and share the map of
// the earlier state, which may be large.
func (m *machine) ownSeen() map[string]int64 {
	if !m.seenOwned {
		m.Seen, m.seenOwned = maps.Clone(m.Seen), true
	}
	if m.Seen == nil {
		m.Seen = map[string]int64{}
	}
	return m.Seen
}

// How long keys and digests are remembered, and how many are forgotten per step.
const (
	seenFor     = 14 * 24 * time.Hour // keys and digests
	pruneAtOnce = 100
)

// prune forgets old entries, a few at a time.
func (m *machine) prune() {
	m.Hourly.prune(m.now)
	m.forgetLost()

	// A renumbered mailbox is read again from the day before it was last read to its end. Items
	// accepted around that day must still be known, however long the agent was off.
	horizon := m.now
	if complete := m.Cursor.Complete; !complete.IsZero() && complete.Before(horizon) {
		horizon = complete
	}
	oldest := horizon.Add(-seenFor).Unix()
	var old, rejections []string
	for key, at := range m.Seen {
		if at < oldest {
			old = append(old, key)
		}
		if strings.HasPrefix(key, rejectionPrefix) {
			rejections = append(rejections, key)
		}
	}
	m.forgetRejections(rejections)
	slices.Sort(old) // Step is pure: the order of a map must not decide
	for _, key := range old[:min(len(old), pruneAtOnce)] {
		delete(m.ownSeen(), key)
	}
}

// forgetRejections keeps only the newest rejections. keys are all of them.
func (m *machine) forgetRejections(keys []string) {
	if len(keys) <= maxRejections {
		return
	}
	order.Sort(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(m.Seen[a], m.Seen[b]), cmp.Compare(a, b))
	})
	for _, key := range keys[:len(keys)-maxRejections] {
		delete(m.ownSeen(), key)
	}
}

// Pruned reports that everything older than Before was removed from the folders.
type Pruned struct{ Before time.Time }

func (e Pruned) apply(m *machine) {
	m.Pruned = m.now
	for i := 0; i < len(m.Undelivered); {
		if !m.Undelivered[i].GivenUp.Before(e.Before) {
			i++
			continue
		}
		m.endUndelivered(i, WordForgotten, "older than [agent] keep")
	}
}

// ToFlag lists the UIDs of mails to mark, in one mailbox under one UIDVALIDITY.
type ToFlag struct {
	Mailbox  string   `json:"mailbox,omitempty"`
	Validity uint32   `json:"uidvalidity,omitempty"`
	UIDs     []uint32 `json:"uids,omitempty"`     // to mark \Seen
	Answered []uint32 `json:"answered,omitempty"` // to mark \Seen and \Answered
}

// acknowledgeLater records that the server must be told that an item was read. It is told after the
// commit that made the item durable. The mesh heard of an item that a person releases when the
// item went into quarantine.
func (m *machine) acknowledgeLater(uid uint32, meshID string) {
	if uid != 0 && !m.foreign {
		m.ownToFlag()
		m.ToFlag.UIDs = appendNew(m.ToFlag.UIDs, uid)
	}
	if meshID != "" && !m.admitted && !slices.Contains(m.ToAck, meshID) {
		m.ToAck = append(m.ToAck, meshID)
	}
}

// ownToFlag makes ToFlag one of the mailbox that is read now. It drops the UIDs of another one.
func (m *machine) ownToFlag() {
	if m.ToFlag.Mailbox != m.Cursor.Mailbox || m.ToFlag.Validity != m.Cursor.Validity {
		m.ToFlag = ToFlag{Mailbox: m.Cursor.Mailbox, Validity: m.Cursor.Validity}
	}
}

// appendNew appends uid to uids unless they contain it.
func appendNew(uids []uint32, uid uint32) []uint32 {
	if slices.Contains(uids, uid) {
		return uids
	}
	return append(uids, uid)
}

// answeredMails returns the keys of the mails among msgs, if reply answers them by mail.
func answeredMails(reply Effect, msgs []Message) (keys []string) {
	for _, msg := range msgs {
		if msg.Source == Mail && reply.Channel == ByMail {
			keys = append(keys, msg.Key)
		}
	}
	return keys
}

// markAnsweredLater records that the server must be told which mails a reply answered. It drops the
// mails of another mailbox, and of this one before it was renumbered.
func (m *machine) markAnsweredLater(keys []string) {
	for _, key := range keys {
		if uid, ok := m.Cursor.UID(key); ok {
			m.ownToFlag()
			m.ToFlag.Answered = appendNew(m.ToFlag.Answered, uid)
		}
	}
}

// messageID returns the id of a message that an acknowledgement names.
func messageID(ack string) string { return ack[strings.LastIndexByte(ack, '/')+1:] }

// Flagged reports that the mail server has marked mails \Seen, and some of them \Answered.
type Flagged struct {
	Mailbox  string
	Validity uint32
	UIDs     []uint32
	Answered []uint32
}

func (e Flagged) apply(m *machine) {
	if e.Mailbox != m.ToFlag.Mailbox || e.Validity != m.ToFlag.Validity {
		return
	}
	m.ToFlag.UIDs = without(m.ToFlag.UIDs, e.UIDs)
	m.ToFlag.Answered = without(m.ToFlag.Answered, e.Answered)
}

// without returns uids without those in removed, or nil, as an empty list is read back.
func without(uids, removed []uint32) []uint32 {
	uids = slices.DeleteFunc(uids, func(uid uint32) bool { return slices.Contains(removed, uid) })
	if len(uids) == 0 {
		return nil
	}
	return uids
}

// MeshAcked reports that the mesh has taken acknowledgements.
type MeshAcked struct{ IDs []string }

func (e MeshAcked) apply(m *machine) {
	m.ToAck = slices.DeleteFunc(m.ToAck, func(id string) bool { return slices.Contains(e.IDs, id) })
}
