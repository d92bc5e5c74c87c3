package cycle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Refusal is why an item is in quarantine; verdict.json beside its payload.
type Refusal struct {
	Key     string       `json:"key"`
	Source  state.Source `json:"source"`
	From    string       `json:"from"` // as the item says; nothing in it is proved
	Subject string       `json:"subject,omitempty"`
	Gate    string       `json:"gate"`
	Reason  string       `json:"reason"`
	At      time.Time    `json:"at"`            // INTERNALDATE or sent_at
	Kept    time.Time    `json:"kept,omitzero"` // when it was put there
}

// Quarantined is an item of quarantine/.
type Quarantined struct {
	Refusal
	Payload string `json:"payload"` // its file, below the state directory
	Size    int64  `json:"size"`    // bytes of that
}

// The files of an item.
const (
	verdictFile = "verdict.json"
	mailFile    = "message.eml"
	meshFile    = "message.json"
)

// ErrNotQuarantined: no such item is in quarantine.
var ErrNotQuarantined = errors.New("not in quarantine")

// Quarantine lists what is in quarantine, oldest first.
func (a *Agent) Quarantine() ([]Quarantined, error) {
	s, err := a.Store.Read()
	if err != nil {
		return nil, err
	}
	items, err := readQuarantine(a.Store)
	// A crash may leave the folder of what was let in.
	return slices.DeleteFunc(items, func(q Quarantined) bool { return s.Accepts(q.Key) }), err
}

// Quarantined finds an item by its key. ErrNotQuarantined: there is none.
func (a *Agent) Quarantined(key string) (Quarantined, error) {
	s, err := a.Store.Read()
	if err != nil {
		return Quarantined{}, err
	}
	if s.Accepts(key) {
		return Quarantined{}, fmt.Errorf("%s is %w", key, ErrNotQuarantined)
	}
	return a.item(key)
}

// item is Quarantined for what was let in, too, if its folder is still there.
func (a *Agent) item(key string) (Quarantined, error) {
	q, err := readItem(a.Store, quarantineDir(key))
	if errors.Is(err, fs.ErrNotExist) || err == nil && q.Key != key {
		return Quarantined{}, fmt.Errorf("%s is %w", key, ErrNotQuarantined)
	}
	return q, err
}

// itemWithPayload is item, with its mail or message.
func (a *Agent) itemWithPayload(key string) (q Quarantined, raw []byte, err error) {
	if q, err = a.item(key); err != nil {
		return q, nil, err
	}
	if raw, err = os.ReadFile(a.Store.Path(q.Payload)); err != nil {
		return q, nil, fmt.Errorf("read %s: %w", key, err)
	}
	return q, raw, nil
}

// Release lets an item in whatever its gate said, durable when it returns: as a
// message that came now, under its own key, once. If the key was taken before,
// by this item or a real one, already is true and nothing comes in.
func (a *Agent) Release(ctx context.Context, key string) (already bool, err error) {
	q, raw, err := a.itemWithPayload(key)
	if err != nil {
		return false, err
	}
	s, err := a.Store.Read()
	if err != nil {
		return false, err
	}
	switch {
	case s.Accepts(key):
		already = true
	case s.WasReleased(q.same(raw)):
		already = true
		s, err = a.commit(ctx, state.Discarded{Key: key, Reason: state.CopyOfReleased})
	default:
		var event state.Event
		if event, err = a.letIn(a.Store, s, q, raw); err == nil {
			s, err = a.commit(ctx, state.Released{Key: key, Reason: "by hand", Same: q.same(raw), Event: event})
		}
	}
	if err != nil {
		return false, err
	}
	_, err = a.clear(ctx, s, key)
	return already, err
}

// same recognises the item with this payload when a renumbered mailbox brings it
// again under another key: by when it came and all of its bytes, so that no other
// mail is taken for it.
func (q Quarantined) same(raw []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d ", q.At.Unix())
	h.Write(raw)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Expel removes an item from quarantine for good. The real message, if this was
// none, may still come.
func (a *Agent) Expel(ctx context.Context, key, reason string) error {
	if _, err := a.item(key); err != nil {
		return err
	}
	s, err := a.commit(ctx, state.Discarded{Key: key, Reason: reason})
	if err != nil {
		return err
	}
	_, err = a.clear(ctx, s, key)
	return err
}

// letIn makes an item's payload a message's, durably, and gives what the machine
// is to be told once it is let in.
func (a *Agent) letIn(store payloads, s state.State, q Quarantined, raw []byte) (state.Event, error) {
	if q.Gate == mail.GateSize {
		return nil, fmt.Errorf("%s is too big, and only its header was kept: %s", q.Key, q.Reason)
	}
	if q.Source == state.Mesh {
		return a.letMeshIn(store, s, q, raw)
	}
	if a.Mail == nil {
		return nil, fmt.Errorf("%s is a mail, and no mail is configured any more", q.Key)
	}
	if err := store.Copy(q.Payload, mailPayload(q.Key)); err != nil {
		return nil, fmt.Errorf("release %s: %w", q.Key, err)
	}
	control := ""
	if len(raw) < peekLength {
		control = message.Control(message.ReadContent(bytes.NewReader(raw)).Text)
	}
	// Answers must not go to whoever else stands in From.
	from := a.Policy.Operator
	if a.Mail.Filter.Operator(q.From) {
		from = q.From
	}
	m := mail.Message{Key: q.Key, At: q.At, Header: message.ParseHeader(raw)}
	m.Header.From = from
	return mailArrived(m, control), nil
}

func (a *Agent) letMeshIn(store payloads, s state.State, q Quarantined, raw []byte) (state.Event, error) {
	var m mesh.Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("release %s: %w", q.Key, err)
	}
	return a.meshArrived(store, s, m, raw)
}

// clear removes the folders of items that have left the quarantine in s, and
// sets the count right.
func (a *Agent) clear(ctx context.Context, s state.State, keys ...string) (state.State, error) {
	for _, key := range keys {
		if err := a.Store.Remove(quarantineDir(key)); err != nil {
			return s, fmt.Errorf("clear quarantine: %w", err)
		}
	}
	n, err := countQuarantine(a.Store)
	if err != nil || n == s.Quarantined {
		return s, err
	}
	return a.commit(ctx, state.QuarantineHolds{Items: n})
}

// clearLeft is clear for what left with the last commit, of which s is.
func (a *Agent) clearLeft(ctx context.Context, s state.State) (state.State, error) {
	var keys []string
	for _, l := range s.Lines {
		if l.Kind == state.LineQuarantine {
			keys = append(keys, l.Key)
		}
	}
	if len(keys) == 0 {
		return s, nil
	}
	return a.clear(ctx, s, keys...)
}

func quarantineDir(key string) string { return store.PayloadName(store.QuarantineDir, key, "") }

// countQuarantine counts the items in the folder without looking at them.
func countQuarantine(st *store.Store) (int, error) {
	entries, err := os.ReadDir(st.Path(store.QuarantineDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("count quarantine: %w", err)
	}
	return len(entries), nil
}

// readQuarantine reads every item, oldest first. One that cannot be read is
// passed over, since it must stop no poll: a folder that a crash left unfinished,
// whose item the next poll keeps anew, or a broken verdict.
func readQuarantine(st *store.Store) ([]Quarantined, error) {
	entries, err := os.ReadDir(st.Path(store.QuarantineDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list quarantine: %w", err)
	}
	var items []Quarantined
	for _, e := range entries {
		q, err := readItem(st, path.Join(store.QuarantineDir, e.Name()))
		if err == nil {
			items = append(items, q)
		}
	}
	slices.SortFunc(items, func(a, b Quarantined) int {
		return cmp.Or(a.Kept.Compare(b.Kept), cmp.Compare(a.Key, b.Key))
	})
	return items, nil
}

func readItem(st *store.Store, dir string) (Quarantined, error) {
	var q Quarantined
	data, err := os.ReadFile(st.Path(path.Join(dir, verdictFile)))
	if err != nil {
		return q, fmt.Errorf("read quarantine: %w", err)
	}
	if err := json.Unmarshal(data, &q.Refusal); err != nil {
		return q, fmt.Errorf("read quarantine: %s: %w", path.Join(dir, verdictFile), err)
	}
	if q.Kept.IsZero() {
		q.Kept = q.At // it was not noted at first
	}
	q.Payload = path.Join(dir, meshFile)
	if q.Source == state.Mail {
		q.Payload = path.Join(dir, mailFile)
	}
	info, err := os.Stat(st.Path(q.Payload))
	if err != nil {
		return q, fmt.Errorf("read quarantine: %w", err)
	}
	q.Size = info.Size()
	return q, nil
}
