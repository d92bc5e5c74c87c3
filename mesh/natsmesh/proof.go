package natsmesh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/mesh"
)

// A signed message that comes again must be known by its key, and the state remembers
// keys for 14 days. So one that the engine got much later than it was signed, or that was
// signed far ahead of its clock, proves nothing any more.
const (
	maxLate  = 7 * 24 * time.Hour
	maxEarly = 24 * time.Hour
)

// The beginnings of ids that no proven message has: a forger must not be able to take the
// key of a message before it comes.
const (
	unproven  = "unproven."
	undecoded = "undecoded."
)

// keyring has the public keys that our configuration gives to handles.
type keyring struct {
	keys   map[string]string
	handle string // ours
	own    string
}

// keyring reads our own key, which proves what we send to ourselves.
func (c *Client) keyring(ctx context.Context) (keyring, error) {
	own, err := c.engine().PublicKey(ctx)
	return keyring{keys: c.Keys, handle: c.Handle, own: own}, err
}

// of returns the key of a handle, or "".
func (k keyring) of(handle string) string {
	if handle == k.handle {
		return k.own
	}
	return k.keys[handle]
}

// proves reports whether the signature of an item proves that its sender wrote the
// message in it, to us, and lately.
func (k keyring) proves(i fleet.Item, m mesh.Message) bool {
	key := k.of(i.From)
	return key != "" && m.From == i.From && m.To == k.handle && i.To == k.handle && m.ID == i.ID && m.CanAck() &&
		!strings.HasPrefix(m.ID, unproven) && !strings.HasPrefix(m.ID, undecoded) &&
		lately(i.At, i.Stored) && i.SignedBy(key)
}

// lately reports whether what was signed at a time was stored soon enough to prove anything.
func lately(signed, stored time.Time) bool {
	late := stored.Sub(signed)
	return late <= maxLate && late >= -maxEarly
}

// halted reports whether the mesh is halted, or that nothing proves the value it has.
// Everybody may stop it. To let it go on takes a key that we know: that causes turns.
func (k keyring) halted(h fleet.Halt) (halted, unproven bool) {
	if h.Unset || h.Halted {
		return h.Halted, false
	}
	key := k.of(h.By)
	proven := !h.Broken && key != "" && h.SignedBy(key) && (h.Stored.IsZero() || lately(h.At, h.Stored))
	return false, !proven
}

// read returns the message in an item, or what it is instead.
func (k keyring) read(i fleet.Item) (mesh.Message, *mesh.Undecoded) {
	broken := func(reason string) (mesh.Message, *mesh.Undecoded) {
		u := &mesh.Undecoded{Raw: i.Body, ID: undecoded + digest(i), From: i.From, Reason: reason}
		return mesh.Message{}, u
	}
	if len(i.Body) > mesh.MaxMessage {
		return broken(fmt.Sprintf("it is over %d bytes", mesh.MaxMessage))
	}
	m, err := mesh.Decode(i.Body)
	if err != nil {
		return broken(err.Error())
	}
	m.Proven = k.proves(i, m)
	if !m.Proven {
		if m.Correlation == "" {
			m.Correlation = m.ID // its answer is for that
		}
		m.ID, m.From = unproven+digest(i), i.From
	}
	m.To, m.SentAt = k.handle, i.Stored
	for n := range m.Files {
		m.Files[n].Missing = "" // the recipient says that
	}
	return m, nil
}

// digest returns a digest of all that the sender of an item chose.
func digest(i fleet.Item) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(i.From), []byte(i.ID), i.Body} {
		fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
