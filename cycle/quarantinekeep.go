package cycle

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"agentstateloop/state"
)

// Limits of quarantine/: what a gate refuses may be anybody's, so that nobody
// may fill the disk, and no flood push out what others sent.
const (
	mostQuarantined = 500            // items
	quarantineBytes = 256 << 20      // of their payloads
	senderItems     = 50             // of one sender in a senderSpan
	senderBytes     = 64 << 20       // likewise; a first one may be as large as a mail can be
	senderSpan      = 24 * time.Hour //
)

// quarantine is the folder as one observation finds and fills it. Mail and mesh
// fill it side by side.
type quarantine struct {
	agent *Agent
	store payloads
	state state.State // that the observation began with

	mu      sync.Mutex
	loaded  bool
	items   []Quarantined
	evicted []state.Event

	shown map[string]bool // ids of the challenges that were answered, used by mail alone
}

// keep takes an item, with gate, reason and evidence, unless it is known, or
// there is no room for it; size is about what its payload has, in bytes, digest
// that of a mail. It says whether the item is only to be counted.
func (q *quarantine) keep(r Refusal, digest string, size int64, raw io.Reader) (unkept bool, err error) {
	if q.state.KnowsRejected(r.Key, digest) {
		return false, nil
	}
	r.Kept = q.agent.Now().UTC()
	if admitted, err := q.admit(Quarantined{Refusal: r, Size: size}); err != nil || !admitted {
		return true, err
	}
	dir, name := quarantineDir(r.Key), meshFile
	if r.Source == state.Mail {
		name = mailFile
	}
	if err := q.store.Keep(path.Join(dir, name), raw); err != nil {
		return false, err
	}
	verdict, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return false, fmt.Errorf("quarantine %s: %w", r.Key, err)
	}
	// A poll that died may have made the folder, and not durably.
	return false, q.store.KeepAmong(path.Join(dir, verdictFile), strings.NewReader(string(verdict)+"\n"))
}

// admit says whether there is room for an item, and makes it.
func (q *quarantine) admit(item Quarantined) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.load(); err != nil {
		return false, err
	}
	if slices.ContainsFunc(q.items, func(old Quarantined) bool { return old.Key == item.Key }) {
		return true, nil // kept by a poll that did not come to its commit
	}
	if !q.within(item) {
		return false, nil
	}
	q.items = append(q.items, item)
	for q.full() && len(q.items) > 1 {
		if err := q.evict(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// load reads the folder, once, and takes out what a crash left of items that
// were let in.
func (q *quarantine) load() error {
	if q.loaded {
		return nil
	}
	items, err := readQuarantine(q.agent.Store)
	if err != nil {
		return err
	}
	for _, item := range items {
		if !q.state.Accepts(item.Key) {
			q.items = append(q.items, item)
			continue
		}
		if err := q.store.Remove(quarantineDir(item.Key)); err != nil {
			return err
		}
	}
	q.loaded = true
	return nil
}

// within holds a sender to what he may have kept in a day.
func (q *quarantine) within(item Quarantined) bool {
	items, bytes := 0, int64(0)
	for _, old := range q.items {
		if q.sender(old) == q.sender(item) && item.Kept.Sub(old.Kept) < senderSpan {
			items++
			bytes += old.Size
		}
	}
	return items < senderItems && (items == 0 || bytes+item.Size <= senderBytes)
}

// sender is on whose account an item goes: the operator's or the peer's that it
// says to be from, or that of all strangers together, since names cost nothing.
// Each gate has accounts of its own, so that forged mail leaves room for what
// else was refused.
func (q *quarantine) sender(item Quarantined) string {
	account := string(item.Source) + " " + item.Gate
	if q.agent.knows(item.Source, item.From) {
		account += " " + item.From
	}
	return account
}

// knows says whether from is an operator or a listed peer.
func (a *Agent) knows(source state.Source, from string) bool {
	if source == state.Mesh {
		return a.Mesh != nil && slices.Contains(a.Mesh.Peers, from)
	}
	return a.Mail != nil && a.Mail.Filter.Operator(from)
}

func (q *quarantine) full() bool {
	bytes := int64(0)
	for _, item := range q.items {
		bytes += item.Size
	}
	return len(q.items) > mostQuarantined || bytes > quarantineBytes
}

// evict takes out the oldest item of the sender who has the largest share of
// what is there; not the newest, which it makes room for.
func (q *quarantine) evict() error {
	share := map[string]float64{}
	for _, item := range q.items {
		share[q.sender(item)] += 1.0/mostQuarantined + float64(item.Size)/quarantineBytes
	}
	victim := -1
	for i, item := range q.items[:len(q.items)-1] { // oldest first
		if q.state.Asks(item.Key) {
			continue // the operator may want it in a moment
		}
		if victim < 0 || share[q.sender(item)] > share[q.sender(q.items[victim])] {
			victim = i
		}
	}
	victim = max(victim, 0)
	key := q.items[victim].Key
	q.items = slices.Delete(q.items, victim, victim+1)
	q.evicted = append(q.evicted, state.Discarded{Key: key, Reason: "quarantine is full"})
	return q.store.Remove(quarantineDir(key))
}

// told gives what the machine is to know of the folder after an observation that
// has put something into it.
func (q *quarantine) told() []state.Event {
	n, err := countQuarantine(q.agent.Store)
	if !q.loaded || err != nil {
		return q.evicted // what was refused counts one each
	}
	return append(q.evicted, state.QuarantineHolds{Items: n})
}
