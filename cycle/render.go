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

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/hook"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// renderer renders the bytes of our messages.
type renderer struct {
	core
	mail    *Mail // nil: no mail is configured
	replies Replies
	idKeys  idKeys
	hooks   []hook.Hook
}

// render returns the bytes of an effect with a short text: an ack, a quiet, a notice, an
// answer, a question. The runner renders the reply of a turn itself.
func (r *renderer) render(s state.State, e state.Effect, now time.Time) ([]byte, error) {
	if e.Channel == state.ByHook {
		return r.event(e)
	}
	text, err := r.text(s, e)
	if err != nil {
		return nil, err
	}
	if e.Kind == state.Working {
		e.Thread = r.threadOf(s)
	}
	if e.Channel == state.ByMesh {
		return json.Marshal(meshMessage(r.handle, e, text))
	}
	what := mailText{text: text, markdown: e.Kind == state.OperatorQuestion}
	if e.Kind == state.Answer && e.Text == state.ControlStatus && r.replies.HTML {
		what.page = r.statusPage(s, text, now)
	}
	return r.renderMail(s.Place, e, what, nil, now)
}

// weekAgo is the length of the band of a status mail.
const weekAgo = 7 * 24 * time.Hour

// statusPage returns the HTML part of a status mail, or "" if the history cannot be read.
func (r *renderer) statusPage(s state.State, text string, now time.Time) string {
	past := view.Past{Store: r.store, Policy: r.policy}
	if err := past.Read(s, now); err != nil {
		r.logf("the status mail has no HTML: %v", err)
		return ""
	}
	page := view.StatusPage{Handle: r.handle, Phase: s.Phase, Halted: s.Halted(), Text: text, Week: past.Band(now.Add(-weekAgo), now), Location: r.policy.Location}
	return page.HTML()
}

// event returns the body for a hook. If the hook's template fails with this event, the hook
// gets JSON, so that the commit is not held up.
func (r *renderer) event(e state.Effect) ([]byte, error) {
	i := slices.IndexFunc(r.hooks, func(h hook.Hook) bool { return h.Name == e.To })
	configured := hook.Hook{Name: e.To}
	if i >= 0 {
		configured = r.hooks[i]
	}
	body, err := configured.Render(*e.Announces)
	if err != nil && body != nil {
		r.logf("%v; sending the event as JSON", err)
		err = nil
	}
	return body, err
}

// threadOf returns the conversation of the message that has its turn now. It need not be the
// newest one.
func (r *renderer) threadOf(s state.State) state.Thread {
	msg, _ := s.TurnMessage()
	m, err := readMessage(r.store, s.Turn, msg)
	if err != nil {
		return s.Thread // its payload is gone
	}
	return m.thread
}

// mailText is the text of a mail.
type mailText struct {
	text     string
	markdown bool   // the text is an agent's, and may be formatted
	page     string // its HTML, or ""
}

// renderMail returns the bytes of a mail of ours, in the thread of the effect. place is State.Place.
func (r *renderer) renderMail(place string, e state.Effect, what mailText, list []message.Attachment, now time.Time) ([]byte, error) {
	key, err := r.idKeys.key()
	if err != nil {
		return nil, err
	}
	head, err := r.store.Head()
	if err != nil {
		return nil, fmt.Errorf("read the head of the history: %w", err)
	}
	draft := message.Draft{
		ID:          e.ID,
		IDKey:       key,
		Handle:      r.handle,
		Name:        r.replies.Name,
		From:        r.mail.Address,
		To:          e.To,
		Subject:     e.Thread.Subject,
		InReplyTo:   e.Thread.MessageID,
		References:  e.Thread.References,
		Thread:      e.Thread.ID,
		Date:        now,
		Text:        what.text,
		Markdown:    what.markdown && r.replies.HTML,
		HTML:        what.page,
		Attachments: list,
		Auto:        "auto-generated",
		History:     head.String(),
		Place:       place,
	}
	if draft.Subject == "" {
		draft.Subject = "@" + r.handle
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

// meshMessage returns the message that carries an effect to another agent. A report has the
// outcome of its turn.
func meshMessage(from string, e state.Effect, text string) mesh.Message {
	m := mesh.Message{
		ID: e.ID, From: from, To: e.To, Text: text, Kind: meshKind(e.Kind),
		Correlation: e.Correlation, Hops: e.Hops, ResultFields: e.ResultFields, Trace: e.Trace,
		Files: files.ForMesh(e.Files),
	}
	if m.Kind == mesh.KindReport {
		m.Status, m.TurnID, m.Epoch, m.AfterExecution = e.Outcome, e.TurnID, e.Epoch, e.AfterExecution
	}
	return m
}

// meshKind returns the kind of mesh message that carries an effect. Only a
// question and a message cause turns there. An alarm is a message, so that the
// keymaster acts on it.
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

// text returns the text of an effect.
func (r *renderer) text(s state.State, e state.Effect) (string, error) {
	if len(e.Tells) > 0 {
		return r.undelivered(s, e), nil
	}
	if e.Text == state.WasRestored {
		return r.restoredReport(s, e.Channel == state.ByMail), nil
	}
	switch e.Kind {
	case state.Ack:
		text, err := r.fill(r.replies.Ack, state.PREP)
		if e.Text != "" {
			text += "\n\nwoken by " + e.Text
		}
		return text + r.outOfMoneyNote(s), err
	case state.Quiet:
		quiet := r.replies.QuietPrep
		if e.From == state.ACTIVE {
			quiet = r.replies.QuietActive
		}
		text, err := r.fill(quiet, e.From)
		return text + r.outOfMoneyNote(s), err
	case state.Working:
		return "still working on it.", nil
	case state.OperatorQuestion:
		return operatorQuestionText(e), nil
	case state.Answer:
		if e.Channel == state.ByMail {
			return r.answer(s, e.Text), nil
		}
	}
	return e.Text, nil
}

// outOfMoneyNote returns the note for a mail that promises a turn while the agent cannot afford
// one, or "".
func (r *renderer) outOfMoneyNote(s state.State) string {
	why := view.OutOfMoney(s, *r.policy, r.now())
	if why == "" {
		return ""
	}
	return "\n\nI am out of money: " + why + "."
}

// answer returns the mail that confirms a control to the operator, with the
// agent's status.
func (r *renderer) answer(s state.State, control string) string {
	var b strings.Builder
	switch control {
	case state.ControlStop:
		b.WriteString("STOP: the running turn is being stopped.\n\n")
	case state.ControlHalt:
		b.WriteString("HALT: nothing runs and nothing is sent until you send GO. Mail is still collected.\n\n")
	case state.ControlGo:
		b.WriteString("GO.\n\n")
	case message.ControlYes:
		b.WriteString("YES: nothing was done. The question was already answered, is older than 24 hours, or the mail that it asked about is gone.\n\n")
	}
	fmt.Fprintf(&b, "%s since %s\n", s.Phase, s.PhaseSince.Format(time.RFC3339))
	if s.HaltedHere {
		b.WriteString("HALTED here\n")
	}
	if s.HaltedMesh {
		b.WriteString("HALTED on the mesh: `agentstateloop mesh resume` lifts it\n")
	}
	if r.seat != nil && s.Seat.Host != "" {
		fmt.Fprintf(&b, "host: %s acts, term %d\n", s.Seat.Host, s.Seat.Term)
	}
	fmt.Fprintf(&b, "turn: %s\ninbox: %d waiting\noutbox: %d waiting, %d undeliverable\n",
		s.Turn.Status, len(s.Inbox)-len(s.Planned())-len(s.HeldRows()), len(s.Outbox), len(s.Undelivered))
	if held := len(s.HeldRows()); held > 0 {
		fmt.Fprintf(&b, "held: %d, %s\n", held, state.HeldReason)
	}
	for _, w := range s.OperatorWaits(r.now()) {
		fmt.Fprintf(&b, "question to you, until %s: %s%s\n", w.By.UTC().Format(time.RFC3339), plain.Line(w.Text), view.OptionsText(w.Options))
	}
	r.wakeups(&b, s)
	r.prompts(&b, s)
	today, month := s.SpentOn(*r.policy, r.now())
	fmt.Fprintf(&b, "spent: %v today, %v this month\n", today, month)
	if head, err := r.store.Head(); err == nil && head.Sum != "" {
		fmt.Fprintf(&b, "history: %v\n", head)
	}
	if limit, limited := s.Tightest(*r.policy, r.now()); limited {
		fmt.Fprintf(&b, "tier: %s, %v left of %s\n", s.Tier(*r.policy, r.now()), max(0, limit.Left), limit.What())
	}
	for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
		c := s.Credentials[name]
		fmt.Fprintf(&b, "credential %s: failing since %s\n", name, c.Since.Format(time.RFC3339))
	}
	return b.String()
}

// prompts adds the next time of each clock prompt.
func (r *renderer) prompts(b *strings.Builder, s state.State) {
	for _, p := range view.PromptStatus(s, *r.policy, r.now()) {
		switch {
		case p.Next == nil:
		case p.Held != "":
			fmt.Fprintf(b, "prompt %s: due since %s, held: %s\n", p.Name, p.Next.Format("2006-01-02 15:04Z"), p.Held)
		default:
			fmt.Fprintf(b, "prompt %s: next %s\n", p.Name, p.Next.Format("2006-01-02 15:04Z"))
		}
	}
}

// mostWakeups limits the wakeups that an answer shows.
const mostWakeups = 5

// wakeups adds the wakeups of the agent, the next first.
func (r *renderer) wakeups(b *strings.Builder, s state.State) {
	rows := view.Wakeups(s, *r.policy, r.now(), func(state.Message) bool { return true })
	for _, w := range rows[:min(len(rows), mostWakeups)] {
		fmt.Fprintf(b, "%s: %s, %s", w.Kind, w.At.Format(time.RFC3339), plain.Line(w.Title))
		if w.Held != "" {
			fmt.Fprintf(b, " (waits: %s)", w.Held)
		}
		b.WriteByte('\n')
	}
	if more := len(rows) - mostWakeups; more > 0 {
		fmt.Fprintf(b, "and %d more wakeups\n", more)
	}
}

// fill executes a reply template.
func (r *renderer) fill(t *template.Template, phase state.Phase) (string, error) {
	if t == nil {
		return "", fmt.Errorf("this mail has no template")
	}
	var out strings.Builder
	err := t.Execute(&out, ReplyData{Handle: r.handle, Callsign: "@" + r.handle, Phase: string(phase)})
	return out.String(), err
}
