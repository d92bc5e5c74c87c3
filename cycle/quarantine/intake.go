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
	maxItems    = 500            // all items
	maxBytes    = 256 << 20      // all payloads
	senderItems = 50             // of one sender in a senderSpan
	senderBytes = 64 << 20       // the same, in bytes; a sender's first item may be as large as the largest mail
	senderSpan  = 24 * time.Hour //
)

// Files stores the items of an intake: in the agent's store, or in memory for a dry run. The
// methods are those of store.Store.
type Files interface {
	KeepSummed(name string, r io.Reader) (sum string, err error)
	KeepAmong(name string, r io.Reader) error
	Remove(name string) error
}

// Intake puts the rejected items of one observation into the folder. Mail and mesh use it
// concurrently.
type Intake struct {
	folder Folder
	files  Files
	state  state.State // at the beginning of the observation
	now    func() time.Time
	known  func(source state.Source, from string) bool
	list   func() ([]Item, error) // the items in the folder

	mu      sync.Mutex
	loaded  bool
	items   []Item               // in the folder, or with a reserved place in it
	spent   map[string]time.Time // when an exhausted account may keep items again, see within
	evicted []state.Event
}

// NewIntake returns the intake of an observation that began with the state s. known reports
// whether a sender is an operator or a listed peer.
func NewIntake(f Folder, files Files, s state.State, now func() time.Time, known func(source state.Source, from string) bool) *Intake {
	return &Intake{folder: f, files: files, state: s, now: now, known: known, list: f.Items}
}

// ReadBy makes the intake read the folder by list.
func (in *Intake) ReadBy(list func() ([]Item, error)) { in.list = list }

// Room reports whether Keep would keep an item, and reserves its place. An item without a place
// is only counted, so the caller need not fetch it.
func (in *Intake) Room(v Verdict, digest string, size int64) (bool, error) {
	if in.state.KnowsRejected(v.Key, digest) {
		return false, nil
	}
	v.Kept = in.now().UTC()
	return in.admit(Item{Verdict: v, Size: size})
}

// Keep keeps an item with its verdict, unless the state knows the item, or the folder has no
// room for it. digest is the digest of a mail. size is the approximate size of the payload, in
// bytes. unkept reports that the item is only counted.
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
	// KeepAmong, because a poll that died may have made the folder without an fsync.
	return false, in.files.KeepAmong(path.Join(Dir(v.Key), verdictFile), strings.NewReader(string(verdict)+"\n"))
}

// Events returns the events about the folder for the machine, after an observation.
func (in *Intake) Events() []state.Event {
	n, err := in.folder.Count()
	if !in.loaded || err != nil {
		return in.evicted // each rejected item has its own event, which counts it
	}
	return append(in.evicted, state.QuarantineHolds{Items: n})
}

// admit reports whether there is room for an item. It evicts other items to make room.
func (in *Intake) admit(item Item) (bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.load(); err != nil {
		return false, err
	}
	if slices.ContainsFunc(in.items, func(old Item) bool { return old.Key == item.Key }) {
		return true, nil // its place is reserved, or a poll kept it and died before its commit
	}
	if !in.withinLimits(item) || !in.fitsWithRestored(item) {
		return false, nil
	}
	in.items = append(in.items, item)
	for len(in.items) > 1 && full(in.items) {
		if err := in.evict(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// load reads the folder once. It removes the released items that a crash has left in the folder.
func (in *Intake) load() error {
	if in.loaded {
		return nil
	}
	items, err := in.list()
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

// withinLimits reports whether an item is within its sender's daily limits. A restore puts mail of
// many days into the folder at once, so its gate has no such limits.
func (in *Intake) withinLimits(item Item) bool {
	if item.Gate == state.GateRestored {
		return true
	}
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
		in.spent[account] = oldest.Add(senderSpan) // so that a flood does not count the folder once per mail
		return false
	}
	return items == 0 || item.Size <= senderBytes-bytes
}

// account returns the account of an item. The operator and each listed peer have their own, by
// the name in the item. All strangers share one, because names cost nothing. Each gate has
// separate accounts, so forged mail leaves room for the rejected items of other gates.
func (in *Intake) account(item Item) string {
	account := string(item.Source) + " " + item.Gate
	if in.known(item.Source, item.From) {
		account += " " + item.From
	}
	return account
}

// fitsWithRestored reports whether an item has room without the eviction of mail that a restore
// rejected. The report about the restore has promised that mail to the operator.
func (in *Intake) fitsWithRestored(item Item) bool {
	kept := []Item{item}
	for _, old := range in.items {
		if old.Gate == state.GateRestored {
			kept = append(kept, old)
		}
	}
	return len(kept) == 1 || !full(kept)
}

func full(items []Item) bool {
	bytes := int64(0)
	for _, item := range items {
		bytes += item.Size
	}
	return len(items) > maxItems || bytes > maxBytes
}

// evict removes the oldest item of the account with the largest share of the folder. It spares
// the newest item, which needs the room, and mail that a restore rejected.
func (in *Intake) evict() error {
	share := map[string]float64{}
	for _, item := range in.items {
		share[in.account(item)] += 1.0/maxItems + float64(item.Size)/maxBytes
	}
	victim, asked := -1, -1
	for i, item := range in.items[:len(in.items)-1] { // oldest first
		if item.Gate == state.GateRestored {
			continue
		}
		if in.state.Asks(item.Key) { // the operator may still answer
			if asked < 0 {
				asked = i
			}
			continue
		}
		if victim < 0 || share[in.account(item)] > share[in.account(in.items[victim])] {
			victim = i
		}
	}
	if victim < 0 {
		victim = asked
	}
	key := in.items[victim].Key
	delete(in.spent, in.account(in.items[victim]))
	in.items = slices.Delete(in.items, victim, victim+1)
	in.evicted = append(in.evicted, state.Discarded{Key: key, Reason: "quarantine is full"})
	return in.files.Remove(Dir(key))
}

// MailIn returns the mail with this key from the files that an intake has kept in memory, by
// name. ok is false if the mail is missing.
func MailIn(files map[string][]byte, key string) (i Item, payload []byte, ok bool) {
	payload, ok = files[path.Join(Dir(key), mailFile)]
	ok = ok && json.Unmarshal(files[path.Join(Dir(key), verdictFile)], &i.Verdict) == nil
	return i, payload, ok
}
