package message

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"strings"
)

// IDs makes the Message-IDs of one agent's mail, and distinguishes them from others
// (docs/protocol.md, "Our mail"). An id is
//
//	<EFFECT.MAC.HANDLE@domain>
//	<EFFECT+THREAD.MAC.HANDLE@domain>
//
// HANDLE has no dot. THREAD is the id of a separate conversation, see ThreadOf. MAC is two MACs
// with the agent's key: the first over the rest of the id, the second over that and the subject
// of the thread. So only somebody who has a mail of ours knows an id with a valid MAC, and the
// MAC shows the thread that the id belongs to.
//
// Ids are compared without regard to case, because some programs change it.
type IDs struct {
	Handle, Address string // of the agent; only the domain of Address counts
	IDKey
}

// IDKey makes ids an agent's own.
type IDKey struct {
	Secret []byte // at least minSecret bytes; with fewer no MAC is valid
}

const (
	minSecret  = 16 // bytes
	partOfMAC  = 10 // bytes of HMAC-SHA256 in each part: 80 bits cannot be guessed by sending mail
	macLetters = 32 // characters of both parts in base32
)

// lowerBase32 is the alphabet of RFC 4648 in lower case.
const lowerBase32 = "abcdefghijklmnopqrstuvwxyz234567"

// Make returns the Message-ID, with its brackets, of the mail with effect id in the thread of
// subject. It is always the same for the same arguments. For a mail of a separate conversation,
// effect is the result of InThread.
func (i IDs) Make(effect, subject string) string {
	return "<" + effect + "." + i.identity(effect) + i.membership(effect, subject) + i.suffix() + ">"
}

// HasForm reports whether msgid has the form of a Message-ID of this agent, with or without a
// MAC. Anybody can write such an id.
func (i IDs) HasForm(msgid string) bool {
	_, ok := i.local(msgid)
	return ok
}

// Ours reports whether this agent made msgid: its first MAC is valid.
func (i IDs) Ours(msgid string) bool {
	_, ok := i.Effect(msgid)
	return ok
}

// Effect returns the effect, in lower case, whose mail has the id msgid. ok is false unless its
// MAC shows that this agent made the id.
func (i IDs) Effect(msgid string) (effect string, ok bool) {
	effect, _, ok = i.read(msgid)
	return effect, ok
}

// threadMark separates the effect from the thread. It occurs in no effect.
const threadMark = "+"

// InThread returns the id of an effect, followed by the id of its thread unless that is "".
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
	if !ok || !i.validMAC(mac[:len(mac)/2], i.identity(effect)) {
		return "", "", false
	}
	effect, thread, _ = strings.Cut(effect, threadMark)
	return effect, thread, true
}

// threadBytes is the number of bytes of a hash in the id of a thread: enough to keep the
// threads of one person distinct.
const threadBytes = 5

// ThreadOf returns the id of the thread that a mail belongs to. It is the thread of the newest
// mail of ours that the mail answers, if a MAC proves one. Otherwise it is made from the first
// Message-ID of the mail's chain, so that a mail which answers the operator's own is in the
// same thread. The subject does not matter. It is "" for a mail without any id.
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

// NewThread returns the id of the thread that begins with this Message-ID, or with any other
// text that is always the same for the thread.
func NewThread(root string) string {
	sum := sha256.Sum256([]byte(Lower(strings.TrimSpace(root))))
	return base32.NewEncoding(lowerBase32).WithPadding(base32.NoPadding).EncodeToString(sum[:threadBytes])
}

// EffectOf returns the effect, in lower case, in an id that has the form of this handle's ids.
// It does not check the MAC.
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

// answerPrefix begins the effect of each final answer to a message.
const answerPrefix = "reply."

// IsAnswer reports whether msgid has the form of the id of a final answer of handle. It does not
// check the MAC.
func IsAnswer(msgid, handle string) bool {
	effect, ok := EffectOf(msgid, handle)
	return ok && strings.HasPrefix(effect, answerPrefix)
}

// AnsweredIn returns the Message-IDs of the mails that we answered according to the References of
// h: each stands directly before the id of a final answer of ours, whose MAC is valid. The caller
// must trust the sender of h. The first id of a long list counts for nothing, because mail
// programs leave out the ids after it.
func (i IDs) AnsweredIn(h Header) []string {
	var answered []string
	for n := 1; n < len(h.References); n++ {
		effect, ours := i.Effect(h.References[n])
		cut := n == 1 && len(h.References) >= maxOwnReferences
		if ours && strings.HasPrefix(effect, answerPrefix) && !cut {
			answered = append(answered, h.References[n-1])
		}
	}
	return answered
}

// OfThread reports whether this agent made msgid for a mail in the thread of an answer with
// this subject. It needs a valid MAC: an id without one names no thread. A subject that marks a
// mail as forwarded belongs to no answer.
func (i IDs) OfThread(msgid, subject string) bool {
	local, ok := i.local(msgid)
	if !ok || baseSubject(subject) == "" || Forwarded(subject) {
		return false
	}
	effect, mac, ok := cutMAC(local)
	return ok && i.validMAC(mac, i.identity(effect)+i.membership(effect, subject))
}

// local returns the part of msgid before HANDLE, in lower case.
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

// mac returns a MAC over texts. It includes the length of each, so that different lists of
// texts have different MACs.
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

// validMAC compares a MAC in constant time.
func (i IDs) validMAC(got, want string) bool {
	return len(i.Secret) >= minSecret && hmac.Equal([]byte(got), []byte(want))
}

// Domain returns the domain of an address, normalised.
func Domain(address string) string {
	address = NormalAddress(address)
	return address[strings.LastIndexByte(address, '@')+1:]
}
