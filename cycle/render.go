package cycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// render makes the exact bytes of an effect whose text is short: acks, quiets,
// notices, answers, questions. A turn's reply comes rendered from its runner.
func (a *Agent) render(s state.State, e state.Effect, now time.Time) ([]byte, error) {
	text, err := a.text(s, e)
	if err != nil {
		return nil, err
	}
	if e.Kind == state.Working {
		e.Thread = a.threadOf(s)
	}
	if e.Channel == state.ByMesh {
		return json.Marshal(mesh.Message{
			ID: e.ID, From: a.Handle, To: e.To, Text: text, Kind: meshKind(e.Kind),
			Correlation: e.Correlation, Hops: e.Hops,
		})
	}
	return a.renderMail(e, text, nil, now)
}

// threadOf is the conversation of the message that has its turn now, which need
// not be the newest one.
func (a *Agent) threadOf(s state.State) state.Thread {
	msg, _ := s.TurnMessage()
	w, err := a.load(s.Turn, msg)
	if err != nil {
		return s.Thread // its payload is gone
	}
	return w.thread
}

// renderMail makes a mail of ours, threaded where the effect says so.
func (a *Agent) renderMail(e state.Effect, text string, files []message.Attachment, now time.Time) ([]byte, error) {
	draft := message.Draft{
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
	if err := message.Render(&out, draft); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// meshKind is how an effect travels the mesh: of all there is only a question
// and a message cause turns there; an alarm is one, so that the keymaster acts.
func meshKind(k state.EffectKind) string {
	switch k {
	case state.Question:
		return mesh.KindAsk
	case state.Reply, state.Answer:
		return mesh.KindReport
	case state.Relay:
		return mesh.KindRelay
	case state.Notice:
		return mesh.KindNotice
	default:
		return mesh.KindMessage
	}
}

// text is what an effect says.
func (a *Agent) text(s state.State, e state.Effect) (string, error) {
	switch e.Kind {
	case state.Ack:
		text, err := a.fill(a.Replies.Ack, state.PREP)
		return text + a.broke(s), err
	case state.Quiet:
		quiet := a.Replies.QuietPrep
		if e.From == state.ACTIVE {
			quiet = a.Replies.QuietActive
		}
		text, err := a.fill(quiet, e.From)
		return text + a.broke(s), err
	case state.Working:
		return "still working on it.", nil
	case state.Answer:
		if e.Channel == state.ByMail {
			return a.answer(s, e.Text), nil
		}
	}
	return e.Text, nil
}

// broke is what an agent that can afford no turn adds to a mail that would
// promise one.
func (a *Agent) broke(s state.State) string {
	why := a.Broke(s)
	if why == "" {
		return ""
	}
	return "\n\nI am out of money: " + why + "."
}

// answer tells the operator that a control was carried out, and where the
// agent stands now.
func (a *Agent) answer(s state.State, control string) string {
	var b strings.Builder
	switch control {
	case state.ControlStop:
		b.WriteString("STOP: whatever was running is being ended.\n\n")
	case state.ControlHalt:
		b.WriteString("HALT: nothing runs and nothing is sent until you say GO. Mail is still collected.\n\n")
	case state.ControlGo:
		b.WriteString("GO.\n\n")
	case message.ControlYes:
		b.WriteString("YES: to nothing that is still asked. It was answered before, or came after 24 hours, or what it is about is gone.\n\n")
	}
	fmt.Fprintf(&b, "%s since %s\n", s.Phase, s.PhaseSince.Format(time.RFC3339))
	if s.HaltedHere {
		b.WriteString("HALTED here\n")
	}
	if s.HaltedMesh {
		b.WriteString("HALTED on the mesh; it is lifted there\n")
	}
	fmt.Fprintf(&b, "turn: %s\ninbox: %d waiting\noutbox: %d waiting, %d undeliverable\n",
		s.Turn.Status, len(s.Inbox), len(s.Outbox), s.Undeliverable)
	today, month := s.SpentOn(a.Policy, a.Now())
	fmt.Fprintf(&b, "spent: %v today, %v this month\n", today, month)
	if limit, limited := s.Tightest(a.Policy, a.Now()); limited {
		fmt.Fprintf(&b, "tier: %s, %v is left of %s\n", s.Tier(a.Policy, a.Now()), max(0, limit.Left), limit.What())
	}
	for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
		c := s.Credentials[name]
		fmt.Fprintf(&b, "credential %s fails since %s\n", name, c.Since.Format(time.RFC3339))
	}
	return b.String()
}

func (a *Agent) fill(t *template.Template, phase state.Phase) (string, error) {
	if t == nil {
		return "", fmt.Errorf("no template for it")
	}
	var out strings.Builder
	err := t.Execute(&out, ReplyData{Handle: a.Handle, Callsign: "@" + a.Handle, Phase: string(phase)})
	return out.String(), err
}
