package cycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"time"

	"agentstateloop/mail"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// render makes the exact bytes of an effect whose text is short: acks, quiets,
// notices, answers. A turn's reply comes rendered from its runner.
func (a *Agent) render(e state.Effect, now time.Time) ([]byte, error) {
	text, err := a.text(e)
	if err != nil {
		return nil, err
	}
	if e.Channel == state.ByMesh {
		return json.Marshal(mesh.Message{ID: e.ID, From: a.Handle, To: e.To, Text: text, Kind: mesh.KindMessage})
	}
	return a.renderMail(e, text, nil, now)
}

// renderMail makes a mail of ours, threaded where the effect says so.
func (a *Agent) renderMail(e state.Effect, text string, files []mail.Attachment, now time.Time) ([]byte, error) {
	draft := mail.Draft{
		ID:          e.ID,
		Handle:      a.Handle,
		From:        a.Mail.Address,
		To:          e.To,
		Subject:     e.Thread.Subject,
		InReplyTo:   e.Thread.MessageID,
		References:  e.Thread.References,
		Date:        now,
		Text:        text,
		Attachments: files,
		Auto:        "auto-generated",
	}
	if draft.Subject == "" {
		draft.Subject = "@" + a.Handle
	}
	if e.Thread.MessageID != "" {
		draft.Auto = "auto-replied"
	}
	var out bytes.Buffer
	if err := mail.Render(&out, draft); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// text is what an effect says.
func (a *Agent) text(e state.Effect) (string, error) {
	switch e.Kind {
	case state.Ack:
		return a.fill(a.Replies.Ack, state.PREP)
	case state.Quiet:
		if e.From == state.ACTIVE {
			return a.fill(a.Replies.QuietActive, e.From)
		}
		return a.fill(a.Replies.QuietPrep, e.From)
	case state.Working:
		return "still working on it.", nil
	default:
		return e.Text, nil
	}
}

func (a *Agent) fill(t *template.Template, phase state.Phase) (string, error) {
	if t == nil {
		return "", fmt.Errorf("no template for it")
	}
	var out strings.Builder
	err := t.Execute(&out, ReplyData{Handle: a.Handle, Callsign: "@" + a.Handle, Phase: string(phase)})
	return out.String(), err
}
