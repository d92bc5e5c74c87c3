package view

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/textproto"
	"strings"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// headline is a payload's entry in a list: the subject of a mail, or the beginning of another
// message's text, and the files.
type headline struct {
	Subject string
	Files   []string // the names; nil if unknown
	Damaged string   // why the payload cannot be shown, or ""
}

// The limits of headlines. A list reads payloads whole and checks their sums until it has read
// wholeBudget bytes. Of each further payload it reads the beginning and compares the length.
// This bounds the time for a list of large mails.
const (
	wholeBudget  = 64 << 20
	headlineRead = 64 << 10
	subjectCells = 120 // characters of a text that replaces a subject
)

// Headliner reads headlines for one list.
type Headliner struct {
	Store *store.Store
	read  int64 // bytes of the payloads that were read whole
}

// of returns the headline of a payload. sum and size are those of its row: "" and 0 in rows of
// older versions.
func (h *Headliner) of(source state.Source, payload, sum string, size int64) headline {
	if payload == "" {
		return headline{}
	}
	length, err := h.Length(payload)
	if err == nil && (length <= headlineRead || h.read+length <= wholeBudget) {
		h.read += length
		var raw []byte
		if raw, err = h.Store.ReadSummed(payload, sum); err == nil {
			return wholeHeadline(source, raw)
		}
	} else if err == nil && size > 0 && sum != "" && length != size {
		err = store.Damaged(payload, errors.New("its length has changed"))
	}
	if err != nil {
		return headline{Damaged: plain.Brief(damageText(err))}
	}
	head, err := h.Head(payload)
	if err != nil {
		return headline{Damaged: plain.Brief(damageText(err))}
	}
	return headHeadline(source, head)
}

// damageText returns in a few words the reason why a payload is unreadable.
func damageText(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "its text is missing"
	case errors.Is(err, store.ErrDamaged):
		return "its text is damaged"
	}
	return err.Error()
}

func (h *Headliner) Length(payload string) (int64, error) {
	f, err := h.Store.Open(payload)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (h *Headliner) Head(payload string) ([]byte, error) {
	f, err := h.Store.Open(payload)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, headlineRead))
}

// wholeHeadline returns the headline of a payload that was read whole.
func wholeHeadline(source state.Source, raw []byte) headline {
	switch source {
	case state.Mail:
		head := headline{Subject: message.ParseHeader(raw).Subject, Files: []string{}}
		for _, f := range message.ContentOf(raw, message.Sent{}).Attachments {
			head.Files = append(head.Files, fileTitle(f))
		}
		return head
	case state.Mesh:
		var m mesh.Message
		if json.Unmarshal(raw, &m) != nil {
			return headline{Damaged: "it is not a mesh message"}
		}
		head := headline{Subject: Beginning(m.Text), Files: []string{}}
		for _, f := range m.Files {
			head.Files = append(head.Files, plain.Line(f.Name))
		}
		return head
	}
	return headline{Subject: Beginning(string(raw)), Files: []string{}}
}

// headHeadline returns the headline of a payload from the beginning of the payload.
func headHeadline(source state.Source, head []byte) headline {
	switch source {
	case state.Mail:
		return headline{Subject: message.ParseHeader(head).Subject}
	case state.Mesh:
		return headline{} // JSON is read whole or not at all
	}
	return headline{Subject: Beginning(string(plain.TrimPartial(head))), Files: []string{}}
}

// Beginning returns the first words of a text, on one line.
func Beginning(text string) string {
	return plain.Shorten(plain.Line(plain.Cut(strings.TrimSpace(text), 8*subjectCells)), subjectCells)
}

// fileTitle returns the sender's name for a file, or else ours.
func fileTitle(f message.Attachment) string {
	if f.Title != "" {
		return plain.Line(f.Title)
	}
	return f.Name
}

// EvidenceField returns the name of the header field that is the evidence for the gate's
// reason, for a mail in quarantine. It returns nil without evidence.
func (r Reader) EvidenceField(i quarantine.Item) *string {
	_, evidence := trust.Finding(i.Gate, i.Reason)
	if i.Source != state.Mail || evidence == "" {
		return nil
	}
	raw, err := (&Headliner{Store: r.Store}).Head(i.Payload)
	if err != nil {
		return nil
	}
	return OrNull(FieldOf(raw, evidence))
}

// FieldOf returns the name of the field in a header whose value is the evidence for a gate's
// reason, or "".
func FieldOf(header []byte, evidence string) string {
	for _, f := range message.Fields(header) {
		if value := plain.OneLine(f.Value, len(evidence)); value != "" && strings.HasPrefix(evidence, value) {
			return textproto.CanonicalMIMEHeaderKey(f.Name)
		}
	}
	return ""
}
