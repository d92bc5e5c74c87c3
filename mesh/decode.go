package mesh

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/lazy"
)

// A message that cannot be decoded must not block the others (docs/protocol.md, "The mesh"). So
// an answer is split into its messages by brackets and quotes alone, and each message is
// decoded separately.

// Undecoded is an item of a mailbox that is not a message.
type Undecoded struct {
	Raw    []byte `json:"raw"`            // the bytes from the mesh
	ID     string `json:"id,omitempty"`   // for an acknowledgement; "" if the item has no usable id
	From   string `json:"from,omitempty"` // the claimed sender, unproven
	Reason string `json:"reason"`         // why it is not a message, in words
}

// Key returns a key of the item, made of its bytes. It never equals the key of a message.
func (u Undecoded) Key() string { return "mesh::" + digest(append([]byte("undecoded "), u.Raw...)) }

// Decode decodes a message strictly. The message must be a UTF-8 object without duplicate
// names, because two readers could understand duplicates differently. Its text may be named
// body.
func Decode(raw []byte) (Message, error) { return Keys(nil).message(raw) }

// message is Decode for a mesh with other member names.
func (k Keys) message(raw []byte) (Message, error) {
	if !utf8.Valid(raw) {
		return Message{}, errors.New("it is not valid UTF-8")
	}
	if err := namesOnce(raw); err != nil {
		return Message{}, err
	}
	found, err := splitObject(raw)
	if err != nil {
		return Message{}, err
	}
	members, changed, err := k.textOf(k.ours(found))
	if err != nil {
		return Message{}, err
	}
	if changed || len(k) > 0 {
		raw = joinObject(members)
	}
	var m Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return Message{}, errors.New(foreignLine(err.Error())) // the error can quote the message
	}
	m.Kind = cmp.Or(m.Kind, KindMessage)
	return m, nil
}

// namesOnce returns an error unless raw is an object without duplicate names.
func namesOnce(raw []byte) error {
	members, err := splitObject(raw)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, m := range members {
		if names[m.folded] {
			return fmt.Errorf("it contains %s twice", foreignLine(m.folded))
		}
		names[m.folded] = true
	}
	return nil
}

// UnmarshalJSON decodes a mailbox. It returns an error only if the answer is not a mailbox at
// all. It takes the first MaxMessages messages that can be acknowledged. It also takes as many
// other items, each of them once: items that never go away must not block the rest.
func (b *Mailbox) UnmarshalJSON(data []byte) error { return b.decode(data, nil) }

// decode is UnmarshalJSON for a mesh with other member names.
func (b *Mailbox) decode(data []byte, keys Keys) error {
	members, err := splitObject(data)
	if err != nil {
		return err
	}
	*b = Mailbox{}
	seen := map[string]bool{}
	for _, m := range keys.of(reflect.TypeFor[Mailbox]()).ours(members) {
		if m.folded != "halted" && m.folded != "messages" {
			continue
		}
		if seen[m.folded] {
			return fmt.Errorf("the answer contains %s twice", m.folded)
		}
		seen[m.folded] = true
		if m.folded == "messages" {
			err = b.decodeMessages(m.raw, keys.of(reflect.TypeFor[Message]()))
		} else {
			err = json.Unmarshal(m.raw, &b.Halted)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Mailbox) decodeMessages(list []byte, keys Keys) error {
	if string(list) == "null" {
		return nil
	}
	lasting := map[string]bool{} // items that cannot be acknowledged or decoded
	taken := 0
	err := eachElement(list, func(raw []byte) (more bool) {
		if lasting[string(raw)] {
			return true
		}
		m, err := keys.message(raw)
		if err == nil && m.CanAck() {
			b.Messages = append(b.Messages, m)
			taken++
			return taken < MaxMessages
		}
		if len(lasting) == MaxMessages {
			return true
		}
		lasting[string(raw)] = true
		if err == nil {
			b.Messages = append(b.Messages, m)
		} else {
			b.Undecoded = append(b.Undecoded, undecoded(raw, keys, err))
		}
		return true
	})
	for i := range b.Undecoded {
		u := &b.Undecoded[i]
		for _, m := range b.Messages {
			if m.ID == u.ID {
				u.ID = "" // an acknowledgement would remove the message
			}
		}
	}
	return err
}

// undecoded returns the Undecoded for an item that cannot be decoded.
func undecoded(raw []byte, keys Keys, cause error) Undecoded {
	u := Undecoded{Raw: bytes.Clone(raw), Reason: cause.Error()}
	found, err := splitObject(raw)
	if err != nil {
		return u
	}
	members := keys.ours(found)
	u.ID, u.From = soleText(members, "id"), soleText(members, "from")
	if !(Message{ID: u.ID}).CanAck() {
		u.ID = ""
	}
	return u
}

// wholeNumber matches a number in the place of an id.
var wholeNumber = lazy.NewRegexp(`^[0-9]{1,20}$`)

// soleText returns the text or whole number of the member with that name. It returns "" unless
// exactly one member has the name.
func soleText(members []member, name string) (text string) {
	found := 0
	for _, m := range members {
		if m.folded != name {
			continue
		}
		found++
		if wholeNumber.Get().Match(m.raw) {
			text = string(m.raw)
		} else if !utf8.Valid(m.raw) || json.Unmarshal(m.raw, &text) != nil {
			text = ""
		}
	}
	if found != 1 {
		return ""
	}
	return text
}

// member is a name and its value in an object. The name is folded as encoding/json compares
// names, ignoring case.
type member struct {
	folded string
	raw    []byte
}

// errForm is the error for brackets and quotes that do not match.
var errForm = errors.New("it is not valid JSON")

// splitObject splits an object into its members.
func splitObject(data []byte) (members []member, err error) {
	data = bytes.Trim(data, blanks)
	if len(data) == 0 || data[0] != '{' {
		return nil, errors.New("it is not an object")
	}
	for at := 1; ; {
		at = skipBlanks(data, at)
		if at == len(data)-1 && data[at] == '}' && len(members) == 0 {
			return nil, nil
		}
		nameEnd, ok := valueEnd(data, at)
		if !ok || data[at] != '"' {
			return nil, errForm
		}
		var name string
		if json.Unmarshal(data[at:nameEnd], &name) != nil {
			return nil, errForm
		}
		at = skipBlanks(data, nameEnd)
		if at >= len(data) || data[at] != ':' {
			return nil, errForm
		}
		at = skipBlanks(data, at+1)
		end, ok := valueEnd(data, at)
		if !ok {
			return nil, errForm
		}
		members = append(members, member{strings.Map(foldRune, name), bytes.Trim(data[at:end], blanks)})
		switch at = skipBlanks(data, end); {
		case at == len(data)-1 && data[at] == '}':
			return members, nil
		case at >= len(data)-1 || data[at] != ',':
			return nil, errForm
		}
		at++
	}
}

// eachElement calls visit for each element of an array until it returns false.
func eachElement(list []byte, visit func(raw []byte) (more bool)) error {
	if len(list) == 0 || list[0] != '[' {
		return errors.New("messages is not an array")
	}
	for at := skipBlanks(list, 1); at < len(list)-1; {
		end, ok := valueEnd(list, at)
		if !ok {
			return errForm
		}
		if !visit(bytes.Trim(list[at:end], blanks)) {
			return nil
		}
		at = skipBlanks(list, end)
		if at < len(list)-1 && list[at] != ',' || at >= len(list) {
			return errForm
		}
		at = skipBlanks(list, at+1)
	}
	return nil
}

const blanks = " \t\r\n"

func skipBlanks(data []byte, at int) int {
	for at < len(data) && strings.IndexByte(blanks, data[at]) >= 0 {
		at++
	}
	return at
}

// valueEnd returns the end of the value that begins at a position: after its last bracket or
// quote, or for any other value before a comma or bracket. The text inside the brackets need
// not be JSON.
func valueEnd(data []byte, at int) (end int, ok bool) {
	var closing []byte // closing brackets that must follow
	for i := at; i < len(data); i++ {
		switch c := data[i]; c {
		case '{':
			closing = append(closing, '}')
		case '[':
			closing = append(closing, ']')
		case '}', ']', ',':
			if len(closing) == 0 {
				return i, i > at
			}
			if c == ',' {
				continue
			}
			if closing[len(closing)-1] != c {
				return 0, false
			}
			if closing = closing[:len(closing)-1]; len(closing) == 0 {
				return i + 1, true
			}
		case '"':
			if i, ok = stringEnd(data, i); !ok {
				return 0, false
			}
			if len(closing) == 0 {
				return i + 1, true
			}
		}
	}
	return 0, false
}

// stringEnd returns the position of the quote that ends the string.
func stringEnd(data []byte, at int) (end int, ok bool) {
	for i := at + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i, true
		}
	}
	return 0, false
}

// foldRune maps all runes that differ only in case to the same rune.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}
