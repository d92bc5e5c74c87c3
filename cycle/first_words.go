package cycle

import (
	"bytes"
	"encoding/json"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// wordsRead bounds a payload whose first words are read: what is longer is not read whole.
const wordsRead = 256 << 10

// FirstWords returns the beginning of what a message says, on one line and without the
// secrets that this process knows. Of a mail without a text that is its subject. ok is
// false if the payload is not kept, or is not what was kept.
func (a *Agent) FirstWords(m state.Message) (words string, ok bool) {
	if m.Title != "" {
		return beginning(a.Secrets.Redact(m.Title)), true
	}
	if m.Payload == "" {
		return "", false
	}
	heads := headliner{store: a.Store}
	length, err := heads.length(m.Payload)
	if err != nil {
		return "", false
	}
	var raw []byte
	if length > wordsRead {
		raw, err = heads.head(m.Payload)
	} else {
		raw, err = a.Store.ReadSummed(m.Payload, m.Sum)
	}
	if err != nil {
		return "", false
	}
	return beginning(a.Secrets.Redact(textOf(m.Source, raw))), true
}

// textOf returns the text of a payload, of which raw may be the beginning alone.
func textOf(source state.Source, raw []byte) string {
	switch source {
	case state.Mail:
		if text := message.ReadContent(bytes.NewReader(raw), message.Sent{}).Text; plain.Line(text) != "" {
			return text
		}
		return message.ParseHeader(raw).Subject
	case state.Mesh:
		var m mesh.Message
		if json.Unmarshal(raw, &m) != nil {
			return ""
		}
		return m.Text
	}
	return string(plain.TrimPartial(raw))
}
