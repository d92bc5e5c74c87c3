package cycle

import (
	"bytes"
	"encoding/json"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// wordsRead limits the size of a payload that is read whole for its first words, in bytes.
const wordsRead = 256 << 10

// FirstWords returns the beginning of a message's text, on one line and without the secrets
// that this process knows. For a mail without text it returns the subject. ok is false if the
// payload is missing or damaged.
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

// textOf returns the text of a payload. raw may be only the beginning of the payload.
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
