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

// A repeated signed message must be recognized by its key, and the state remembers keys for 14
// days. So a message is unproven if the server got it long after it was signed, or if it was
// signed far ahead of the server's clock.
const (
	maxLate  = 7 * 24 * time.Hour
	maxEarly = 24 * time.Hour
)

// Prefixes of ids. No proven message has them, so a forger cannot take the key of a message in
// advance.
const (
	unproven  = "unproven."
	undecoded = "undecoded."
)

// keyring has the public keys of handles from our configuration.
type keyring struct {
	keys   map[string]string
	handle string // ours
	own    string
}

// keyring reads our own key, which proves our messages to ourselves.
func (c *Client) keyring(ctx context.Context) (keyring, error) {
	own, err := c.Conn().PublicKey(ctx)
	return keyring{keys: c.Keys, handle: c.Handle, own: own}, err
}

// of returns the key of a handle, or "".
func (k keyring) of(handle string) string {
	if handle == k.handle {
		return k.own
	}
	return k.keys[handle]
}

// proves reports whether the signature of an item proves that its sender wrote the message in
// it, to us, and lately.
func (k keyring) proves(i fleet.Item, m mesh.Message) bool {
	key := k.of(i.From)
	return key != "" && m.From == i.From && m.To == k.handle && i.To == k.handle && m.ID == i.ID && m.CanAck() &&
		!strings.HasPrefix(m.ID, unproven) && !strings.HasPrefix(m.ID, undecoded) &&
		inTime(i.At, i.Stored) && i.SignedBy(key)
}

// inTime reports whether a message was stored soon enough after it was signed to prove its
// sender.
func inTime(signed, stored time.Time) bool {
	late := stored.Sub(signed)
	return late <= maxLate && late >= -maxEarly
}

// halted reports whether the mesh is halted, or that its value is unproven. Everybody may halt
// it. Lifting HALT takes a key that we know, because it causes turns.
func (k keyring) halted(h fleet.Halt) (halted, unproven bool) {
	if h.Unset || h.Halted {
		return h.Halted, false
	}
	key := k.of(h.By)
	proven := !h.Broken && key != "" && h.SignedBy(key) && (h.Stored.IsZero() || inTime(h.At, h.Stored))
	return false, !proven
}

// read returns the message in an item, or an Undecoded if the item cannot be decoded.
func (k keyring) read(i fleet.Item) (mesh.Message, *mesh.Undecoded) {
	undecodable := func(reason string) (mesh.Message, *mesh.Undecoded) {
		u := &mesh.Undecoded{Raw: i.Body, ID: undecoded + digest(i), From: i.From, Reason: reason}
		return mesh.Message{}, u
	}
	if len(i.Body) > mesh.MaxMessage {
		return undecodable(fmt.Sprintf("it exceeds %d bytes", mesh.MaxMessage))
	}
	m, err := mesh.Decode(i.Body)
	if err != nil {
		return undecodable(err.Error())
	}
	m.Proven = k.proves(i, m)
	if !m.Proven {
		if m.Correlation == "" {
			m.Correlation = m.ID // the answer names this id
		}
		m.ID, m.From = unproven+digest(i), i.From
	}
	m.To, m.SentAt, m.AckID = k.handle, i.Stored, m.From+"/"+m.ID
	for n := range m.Files {
		m.Files[n].Missing = "" // only the recipient sets it
	}
	return m, nil
}

// digest returns a digest of the fields of an item that its sender chose.
func digest(i fleet.Item) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(i.From), []byte(i.ID), i.Body} {
		fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
