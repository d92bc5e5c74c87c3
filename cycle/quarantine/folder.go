// Package quarantine keeps the items that a gate rejected: mails and mesh messages, each in its
// own folder with the gate's verdict. Limits keep a flood from filling the disk, and from
// displacing the items of other senders (docs/design.md, "Quarantine").
package quarantine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Verdict is the reason for an item's quarantine. It is stored as verdict.json next to the
// item's payload.
type Verdict struct {
	Key     string       `json:"key"`
	Source  state.Source `json:"source"`
	From    string       `json:"from"` // as the item claims; it is not proved
	Subject string       `json:"subject,omitempty"`
	Gate    string       `json:"gate"`
	Reason  string       `json:"reason"`
	At      time.Time    `json:"at"`            // INTERNALDATE or sent_at
	Kept    time.Time    `json:"kept,omitzero"` // when the item was quarantined

	// Sum is the payload's checksum from store.Sum; "" in items of older versions.
	Sum string `json:"sha256,omitempty"`

	// Doubtful is set if the mail's sender is proved, but its text is not. Digest is then the
	// digest of the mail.
	Doubtful bool   `json:"doubtful,omitempty"`
	Digest   string `json:"digest,omitempty"`

	// Files is the total size in bytes of the attached files, which are stored next to the
	// payload.
	Files int64 `json:"files_bytes,omitempty"`
}

// Item is an item in quarantine.
type Item struct {
	Verdict
	Payload string `json:"payload"` // path of the payload, below the state directory
	Size    int64  `json:"size"`    // of the payload and the attached files, in bytes
}

// maxVerdict limits the verdict.json that is read, in bytes.
const maxVerdict = 1 << 20

// The files of an item.
const (
	verdictFile = "verdict.json"
	mailFile    = "message.eml"
	meshFile    = "message.json"
)

// ErrNotQuarantined means that the quarantine does not hold the item.
var ErrNotQuarantined = errors.New("not in quarantine")

// Folder is the quarantine of one agent.
type Folder struct {
	Store *store.Store
}

// Dir returns the folder of an item, below the state directory.
func Dir(key string) string { return store.PayloadName(store.QuarantineDir, key, "") }

// payload returns the path of an item's mail or message, below the state directory.
func (v Verdict) payload() string {
	if v.Source == state.Mail {
		return path.Join(Dir(v.Key), mailFile)
	}
	return path.Join(Dir(v.Key), meshFile)
}

// Same returns a name for the item with this payload. The name stays the same when a renumbered
// mailbox delivers the item again under another key. It is a hash of the item's time and of all
// its bytes, so different mails have different names.
func (i Item) Same(payload []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d ", i.At.Unix())
	h.Write(payload)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Items returns all items, oldest first. It skips an unreadable item, so that it cannot stop a
// poll: one with a broken verdict, or a folder that a crash left unfinished. The next poll keeps
// the item of an unfinished folder again.
func (f Folder) Items() ([]Item, error) {
	entries, err := f.entries()
	if err != nil {
		return nil, fmt.Errorf("list quarantine: %w", err)
	}
	var items []Item
	for _, e := range entries {
		i, err := f.read(path.Join(store.QuarantineDir, e.Name()))
		if err == nil {
			items = append(items, i)
		}
	}
	order.Sort(items, func(a, b Item) int {
		return cmp.Or(a.Kept.Compare(b.Kept), cmp.Compare(a.Key, b.Key))
	})
	return items, nil
}

// Find returns the item with this key. The error wraps ErrNotQuarantined if the item is missing.
// After a crash, a released item may still be in the folder.
func (f Folder) Find(key string) (Item, error) {
	i, err := f.read(Dir(key))
	if errors.Is(err, fs.ErrNotExist) || err == nil && i.Key != key {
		return Item{}, fmt.Errorf("%s is %w", key, ErrNotQuarantined)
	}
	return i, err
}

// Open is like Find, and also returns the item's mail or message. The error wraps
// store.ErrDamaged if the payload has changed since it was kept.
func (f Folder) Open(key string) (i Item, payload []byte, err error) {
	if i, err = f.Find(key); err != nil {
		return i, nil, err
	}
	if payload, err = f.Store.ReadSummed(i.Payload, i.Sum); err != nil {
		return i, nil, fmt.Errorf("read %s: %w", key, err)
	}
	return i, payload, nil
}

// Count returns the number of items, without reading them.
func (f Folder) Count() (int, error) {
	entries, err := f.entries()
	if err != nil {
		return 0, fmt.Errorf("count quarantine: %w", err)
	}
	return len(entries), nil
}

// entries lists the quarantine, which must be one of our folders. A missing folder has no
// entries.
func (f Folder) entries() ([]fs.DirEntry, error) {
	if err := f.Store.CheckFolders(path.Join(store.QuarantineDir, verdictFile)); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(f.Store.Path(store.QuarantineDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// Remove removes an item.
func (f Folder) Remove(key string) error { return f.Store.Remove(Dir(key)) }

// read reads the item in a folder below the state directory.
func (f Folder) read(dir string) (Item, error) {
	var i Item
	data, err := f.Store.ReadFile(path.Join(dir, verdictFile), maxVerdict)
	if err != nil {
		return i, fmt.Errorf("read quarantine: %w", err)
	}
	if err := json.Unmarshal(data, &i.Verdict); err != nil {
		return i, fmt.Errorf("read quarantine: %s: %w", path.Join(dir, verdictFile), err)
	}
	if i.Kept.IsZero() {
		i.Kept = i.At // older versions did not store Kept
	}
	i.Payload = path.Join(dir, path.Base(i.payload()))
	info, err := os.Lstat(f.Store.Path(i.Payload))
	if err != nil {
		return i, fmt.Errorf("read quarantine: %w", err)
	}
	i.Size = info.Size() + max(i.Files, 0)
	return i, nil
}
