package quarantine

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

// Limits of the folder.
const (
	maxItems    = 500            // in the folder
	maxBytes    = 256 << 20      // of their payloads
	senderItems = 50             // of one sender in a senderSpan
	senderBytes = 64 << 20       // likewise; a sender's first item may be as large as a mail can be
	senderSpan  = 24 * time.Hour //
)

// Files is where an intake keeps its items: the agent's store, or memory for a
// dry run. The names are those of store.Store.
type Files interface {
	KeepSummed(name string, r io.Reader) (sum string, err error)
	KeepAmong(name string, r io.Reader) error
	Remove(name string) error
}

// Intake puts the items of one observation into the folder. Mail and mesh use it
// at the same time.
type Intake struct {
	folder Folder
	files  Files
	state  state.State // with which the observation began
	now    func() time.Time
	known  func(source state.Source, from string) bool

	mu      sync.Mutex
	loaded  bool
	items   []Item               // in the folder, or with a place reserved in it
	spent   map[string]time.Time // until when an account has nothing left, see within
	evicted []state.Event
}

// NewIntake returns the intake of an observation that began with the state s.
// known reports whether a sender is an operator or a listed peer.
func NewIntake(f Folder, files Files, s state.State, now func() time.Time, known func(source state.Source, from string) bool) *Intake {
	return &Intake{folder: f, files: files, state: s, now: now, known: known}
}

// Room reports whether Keep would keep an item, and reserves its place. So what
// is only to be counted need not be fetched.
func (in *Intake) Room(v Verdict, digest string, size int64) (bool, error) {
	if in.state.KnowsRejected(v.Key, digest) {
		return false, nil
	}
	v.Kept = in.now().UTC()
	return in.admit(Item{Verdict: v, Size: size})
}

// Keep keeps an item with its verdict, unless the state knows the item, or the
// folder has no room for it. digest is that of a mail; size is roughly that of
// the payload, in bytes. Keep reports whether the item is only to be counted.
func (in *Intake) Keep(v Verdict, digest string, size int64, payload io.Reader) (unkept bool, err error) {
	if in.state.KnowsRejected(v.Key, digest) {
		return false, nil
	}
	v.Kept = in.now().UTC()
	if admitted, err := in.admit(Item{Verdict: v, Size: size}); err != nil || !admitted {
		return true, err
	}
	if v.Sum, err = in.files.KeepSummed(v.payload(), payload); err != nil {
		return false, err
	}
	verdict, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return false, fmt.Errorf("quarantine %s: %w", v.Key, err)
	}
	// KeepAmong, because a poll that died may have made the folder without an
	// fsync.
	return false, in.files.KeepAmong(path.Join(Dir(v.Key), verdictFile), strings.NewReader(string(verdict)+"\n"))
}

// Events returns what the machine must learn about the folder after an
// observation.
func (in *Intake) Events() []state.Event {
	n, err := in.folder.Count()
	if !in.loaded || err != nil {
		return in.evicted // each rejected item is counted by its own event
	}
	return append(in.evicted, state.QuarantineHolds{Items: n})
}

// admit reports whether there is room for an item. It makes room by evicting
// others.
func (in *Intake) admit(item Item) (bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.load(); err != nil {
		return false, err
	}
	if slices.ContainsFunc(in.items, func(old Item) bool { return old.Key == item.Key }) {
		return true, nil // reserved, or kept by a poll that died before its commit
	}
	if !in.within(item) {
		return false, nil
	}
	in.items = append(in.items, item)
	for in.full() && len(in.items) > 1 {
		if err := in.evict(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// load reads the folder once, and removes items that were released and that a
// crash has left there.
func (in *Intake) load() error {
	if in.loaded {
		return nil
	}
	items, err := in.folder.Items()
	if err != nil {
		return err
	}
	for _, item := range items {
		if !in.state.Accepts(item.Key) {
			in.items = append(in.items, item)
			continue
		}
		if err := in.files.Remove(Dir(item.Key)); err != nil {
			return err
		}
	}
	in.loaded = true
	return nil
}

// within reports whether an item is within what its sender may have kept in a
// day.
func (in *Intake) within(item Item) bool {
	account := in.account(item)
	if item.Kept.Before(in.spent[account]) {
		return false
	}
	items, bytes, oldest := 0, int64(0), item.Kept
	for _, old := range in.items {
		if in.account(old) == account && item.Kept.Sub(old.Kept) < senderSpan {
			items++
			bytes += old.Size
			if old.Kept.Before(oldest) {
				oldest = old.Kept
			}
		}
	}
	if items >= senderItems || bytes >= senderBytes {
		if in.spent == nil {
			in.spent = map[string]time.Time{}
		}
		in.spent[account] = oldest.Add(senderSpan) // a flood must not count the folder once for each mail
		return false
	}
	return items == 0 || item.Size <= senderBytes-bytes
}

// account returns the account that an item counts for: that of the operator or
// the peer that it says it is from, or that of all strangers together, because
// names cost nothing. Each gate has accounts of its own, so forged mail leaves
// room for what other gates reject.
func (in *Intake) account(item Item) string {
	account := string(item.Source) + " " + item.Gate
	if in.known(item.Source, item.From) {
		account += " " + item.From
	}
	return account
}

func (in *Intake) full() bool {
	bytes := int64(0)
	for _, item := range in.items {
		bytes += item.Size
	}
	return len(in.items) > maxItems || bytes > maxBytes
}

// evict removes the oldest item of the account with the largest share of the
// folder. It spares the newest item, for which it makes room.
func (in *Intake) evict() error {
	share := map[string]float64{}
	for _, item := range in.items {
		share[in.account(item)] += 1.0/maxItems + float64(item.Size)/maxBytes
	}
	victim := -1
	for i, item := range in.items[:len(in.items)-1] { // oldest first
		if in.state.Asks(item.Key) {
			continue // the operator has been asked about it and may answer
		}
		if victim < 0 || share[in.account(item)] > share[in.account(in.items[victim])] {
			victim = i
		}
	}
	victim = max(victim, 0)
	key := in.items[victim].Key
	delete(in.spent, in.account(in.items[victim]))
	in.items = slices.Delete(in.items, victim, victim+1)
	in.evicted = append(in.evicted, state.Discarded{Key: key, Reason: "quarantine is full"})
	return in.files.Remove(Dir(key))
}

// MailIn returns the mail with this key from files that an intake has kept in
// memory, by name. ok is false if it is not among them.
func MailIn(files map[string][]byte, key string) (i Item, payload []byte, ok bool) {
	payload, ok = files[path.Join(Dir(key), mailFile)]
	ok = ok && json.Unmarshal(files[path.Join(Dir(key), verdictFile)], &i.Verdict) == nil
	return i, payload, ok
}
