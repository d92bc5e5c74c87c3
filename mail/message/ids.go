package message

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"strings"
)

// IDs makes the Message-IDs of one agent's mail, and tells them from others
// (docs/design.md, "Our mail"). An id is
//
//	<EFFECT.MAC.HANDLE@domain>
//	<EFFECT+THREAD.MAC.HANDLE@domain>
//
// HANDLE holds no dot. THREAD is the id of a conversation of its own, see ThreadOf. MAC is two MACs with the agent's key: the first over the
// rest of the id, the second over that and the subject of the thread. So only
// somebody who has a mail of ours knows an id with a good MAC, and a reader of
// it knows the thread that it belongs to.
//
// Ids are compared without regard to case, because some programs change it.
type IDs struct {
	Handle, Address string // of the agent; of the address only the domain counts
	IDKey
}

// IDKey is what makes ids an agent's own.
type IDKey struct {
	Secret []byte // at least minSecret bytes; without one no MAC is good
}

const (
	minSecret  = 16 // bytes
	partOfMAC  = 10 // bytes of HMAC-SHA256 in each part: nobody guesses 80 bits by sending mail
	macLetters = 32 // characters of both parts in base32
)

// lowerBase32 is the alphabet of RFC 4648 in lower case.
const lowerBase32 = "abcdefghijklmnopqrstuvwxyz234567"

// Make returns the Message-ID of the mail with effect id in the thread of
// subject, with its brackets. It is always the same for the same arguments. For a mail of a
// conversation of its own, effect is what InThread returns.
func (i IDs) Make(effect, subject string) string {
	return "<" + effect + "." + i.identity(effect) + i.membership(effect, subject) + i.suffix() + ">"
}

// HasForm reports whether msgid has the form of a Message-ID of this agent, with
// or without a MAC. It proves nothing: anybody can write it.
func (i IDs) HasForm(msgid string) bool {
	_, ok := i.local(msgid)
	return ok
}

// Ours reports whether this agent made msgid: its first MAC is good.
func (i IDs) Ours(msgid string) bool {
	_, ok := i.Effect(msgid)
	return ok
}

// Effect returns the effect, in lower case, of which msgid is the mail. ok is false
// unless its MAC shows that this agent made the id.
func (i IDs) Effect(msgid string) (effect string, ok bool) {
	effect, _, ok = i.read(msgid)
	return effect, ok
}

// threadMark separates the effect from the thread. No effect holds one.
const threadMark = "+"

// InThread returns the id of an effect with that of its thread, if that is not "".
func InThread(effect, thread string) string {
	if thread == "" {
		return effect
	}
	return effect + threadMark + thread
}

// read returns the parts of an id that this agent made.
func (i IDs) read(msgid string) (effect, thread string, ok bool) {
	local, ok := i.local(msgid)
	if !ok {
		return "", "", false
	}
	effect, mac, ok := cutMAC(local)
	if !ok || !i.good(mac[:len(mac)/2], i.identity(effect)) {
		return "", "", false
	}
	effect, thread, _ = strings.Cut(effect, threadMark)
	return effect, thread, true
}

// threadBytes is how much of a hash is the id of a thread: enough that two threads of one
// person never meet.
const threadBytes = 5

// ThreadOf returns the id of the thread that a mail belongs to: that of the newest mail of
// ours that it answers, which the MAC proves; else one made from the first Message-ID of its
// chain, so that a mail which answers the operator's own is in the same thread. The subject
// does not matter. It is "" for a mail that has no id at all.
func (i IDs) ThreadOf(h Header) string {
	for _, id := range h.Answered() {
		if _, thread, ours := i.read(id); ours && thread != "" {
			return thread
		}
	}
	root := h.MessageID
	if h.InReplyTo != "" {
		root = h.InReplyTo
	}
	if len(h.References) > 0 {
		root = h.References[0]
	}
	if root == "" {
		return ""
	}
	return NewThread(root)
}

// NewThread returns the id of the thread that begins with this Message-ID, or with anything
// else that is always the same for it.
func NewThread(root string) string {
	sum := sha256.Sum256([]byte(Lower(strings.TrimSpace(root))))
	return base32.NewEncoding(lowerBase32).WithPadding(base32.NoPadding).EncodeToString(sum[:threadBytes])
}

// EffectOf returns the effect, in lower case, that an id with the form of one of this
// handle names. It proves nothing.
func EffectOf(msgid, handle string) (effect string, ok bool) {
	at := strings.LastIndexByte(msgid, '@')
	if at < 0 || len(msgid) > maxMessageID {
		return "", false
	}
	local, ok := strings.CutSuffix(Lower(strings.TrimPrefix(strings.TrimSpace(msgid[:at]), "<")), "."+strings.ToLower(handle))
	if !ok {
		return "", false
	}
	effect, _, ok = cutMAC(local)
	effect, _, _ = strings.Cut(effect, threadMark)
	return effect, ok
}

// OfThread reports whether this agent made msgid for a mail in the thread to
// which an answer with this subject belongs. It needs a good MAC: an id
// without one names no thread. A subject that marks a mail as forwarded is
// that of no answer.
func (i IDs) OfThread(msgid, subject string) bool {
	local, ok := i.local(msgid)
	if !ok || baseSubject(subject) == "" || Forwarded(subject) {
		return false
	}
	effect, mac, ok := cutMAC(local)
	return ok && i.good(mac, i.identity(effect)+i.membership(effect, subject))
}

// local returns what stands before HANDLE in msgid, in lower case.
func (i IDs) local(msgid string) (string, bool) {
	if i.Handle == "" || i.Address == "" || len(msgid) > maxMessageID {
		return "", false
	}
	inner, ok := strings.CutPrefix(Lower(strings.TrimSpace(msgid)), "<")
	if !ok {
		return "", false
	}
	local, ok := strings.CutSuffix(inner, i.suffix()+">")
	return local, ok && local != ""
}

// suffix returns the end of each id, without the bracket.
func (i IDs) suffix() string { return "." + strings.ToLower(i.Handle) + "@" + Domain(i.Address) }

// cutMAC splits the local part of an id.
func cutMAC(local string) (effect, mac string, ok bool) {
	dot := strings.LastIndexByte(local, '.')
	if dot < 1 || len(local)-dot-1 != macLetters {
		return "", "", false
	}
	return local[:dot], local[dot+1:], true
}

// identity returns the first part of the MAC, over all of the id but the MAC.
func (i IDs) identity(effect string) string {
	return encodeMAC(i.mac("identity", strings.ToLower(effect), i.suffix()))
}

// membership returns the second part of the MAC, over the id and the subject of
// its thread.
func (i IDs) membership(effect, subject string) string {
	return encodeMAC(i.mac("thread", strings.ToLower(effect), i.suffix(), baseSubject(subject)))
}

// mac returns a MAC over texts. The length of each goes in too, so that no two
// lists of texts have the same.
func (i IDs) mac(texts ...string) hash.Hash {
	mac := hmac.New(sha256.New, i.Secret)
	for _, s := range texts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		mac.Write([]byte(s))
	}
	return mac
}

func encodeMAC(mac hash.Hash) string {
	return base32.NewEncoding(lowerBase32).WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:partOfMAC])
}

// good compares a MAC in constant time.
func (i IDs) good(got, want string) bool {
	return len(i.Secret) >= minSecret && hmac.Equal([]byte(got), []byte(want))
}

// Domain returns the domain of an address, normalised.
func Domain(address string) string {
	address = NormalAddress(address)
	return address[strings.LastIndexByte(address, '@')+1:]
}
