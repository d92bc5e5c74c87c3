package cycle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Preview is what a poll would do now (`poll --dry-run`).
type Preview struct {
	Before      state.Phase   `json:"before"`
	After       state.Phase   `json:"after"`
	Transitions []string      `json:"transitions"`
	Arrived     []PreviewItem `json:"arrived"`
	Rejected    []PreviewItem `json:"refused"`
	Mails       []PreviewMail `json:"mails"` // in the outbox after it, waiting ones included
	CrontabDiff string        `json:"crontab_diff"`

	// CrontabError says why the table could not be read; "" where it was.
	CrontabError string `json:"crontab_error"`

	Failed []SourceFailure `json:"failed"`
}

// PreviewItem is a message that would be taken or refused.
type PreviewItem struct {
	Key    string `json:"key"`
	From   string `json:"from"`
	Reason string `json:"reason,omitempty"` // of a refusal
}

// PreviewMail is a mail, or a mesh message, that would be sent.
type PreviewMail struct {
	Channel state.Channel `json:"channel"`
	To      string        `json:"to"`
	Subject string        `json:"subject,omitempty"`
	Text    string        `json:"text"`
}

// nowhere keeps no payload: a dry run leaves nothing behind. What quarantine/
// would get, which has its limits, is remembered, since the operator may have to
// be asked about it.
type nowhere struct {
	mu          sync.Mutex
	quarantined map[string][]byte // by name
}

func (n *nowhere) Keep(name string, r io.Reader) error {
	if !strings.HasPrefix(name, store.QuarantineDir+"/") {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	data, err := io.ReadAll(r)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.quarantined == nil {
		n.quarantined = map[string][]byte{}
	}
	n.quarantined[name] = data
	return err
}

func (n *nowhere) KeepAmong(name string, r io.Reader) error { return n.Keep(name, r) }

func (*nowhere) Copy(string, string) error { return nil }
func (*nowhere) Remove(string) error       { return nil }

// mail is an item that this dry run would put into quarantine; false if it would
// not.
func (n *nowhere) mail(key string) (item Quarantined, raw []byte, ok bool) {
	dir := quarantineDir(key)
	raw, ok = n.quarantined[path.Join(dir, mailFile)]
	ok = ok && json.Unmarshal(n.quarantined[path.Join(dir, verdictFile)], &item.Refusal) == nil
	return item, raw, ok
}

// Preview looks at every source and steps the machine in memory. It takes no
// lock, writes no file, marks nothing, sends nothing.
func (a *Agent) Preview(ctx context.Context) (Preview, error) {
	s, err := a.Store.Read()
	if err != nil {
		return Preview{}, err
	}
	store := new(nowhere)
	obs := a.observe(ctx, store, s, false)
	defer obs.close()
	next := state.Step(s, a.redact(obs.events), a.Policy, a.Now())
	p := Preview{Before: s.Phase, After: next.Phase, Failed: obs.failed}
	for _, l := range next.Lines {
		switch l.Kind {
		case state.LineTransition:
			p.Transitions = append(p.Transitions, fmt.Sprintf("%s→%s: %s", l.Old, l.New, l.Reason))
		case state.LineMessage:
			p.Arrived = append(p.Arrived, PreviewItem{Key: l.Key, From: l.From})
		case state.LineGate:
			p.Rejected = append(p.Rejected, PreviewItem{Key: l.Key, From: l.From, Reason: l.Gate + ": " + l.Reason})
		}
	}
	for _, e := range next.Outbox {
		shown, err := a.previewMail(next, e)
		if err != nil {
			return p, err
		}
		p.Mails = append(p.Mails, shown)
	}
	if asked, due := a.previewChallenge(next, store); due {
		p.Mails = append(p.Mails, asked)
	}
	if a.Schedule.Mode != ModeCrontab || next.Schedule.Removed {
		return p, nil
	}
	change, err := a.Schedule.Table.Preview(ctx, a.Job(next))
	if err != nil {
		p.CrontabError = err.Error()
		return p, nil
	}
	p.CrontabDiff = change.Diff()
	return p, nil
}

// previewChallenge is the challenge that would be sent now, about what is in
// quarantine already or would be after this poll. It shows no token: one is made
// when it is sent.
func (a *Agent) previewChallenge(s state.State, store *nowhere) (PreviewMail, bool) {
	key, due := s.ToChallenge(a.Policy, a.Now())
	if !due {
		return PreviewMail{}, false
	}
	item, raw, ok := store.mail(key)
	if !ok {
		var err error
		item, raw, err = a.itemWithPayload(key)
		ok = err == nil
	}
	if !ok || s.WasReleased(item.same(raw)) {
		return PreviewMail{}, false
	}
	return PreviewMail{
		Channel: state.ByMail, To: a.Policy.Operator, Subject: a.challengeSubject(), Text: a.challengeText(item, raw, "TOKEN"),
	}, true
}

func (a *Agent) previewMail(s state.State, e state.Effect) (PreviewMail, error) {
	p := PreviewMail{Channel: e.Channel, To: e.To, Subject: e.Thread.Subject}
	if e.Channel == state.ByMail && e.Thread.MessageID != "" {
		p.Subject = message.ReplySubject(p.Subject)
	}
	if e.File == "" {
		text, err := a.text(s, e)
		p.Text = text
		return p, err
	}
	data, err := os.ReadFile(a.Store.Path(e.File))
	if err != nil {
		return p, fmt.Errorf("read what waits to be sent: %w", err)
	}
	if e.Channel == state.ByMail {
		p.Subject = message.ParseHeader(data).Subject
		p.Text = message.ReadContent(bytes.NewReader(data)).Full
		return p, nil
	}
	var m mesh.Message
	err = json.Unmarshal(data, &m)
	p.Text = m.Text
	return p, err
}

// fields are the five time fields of a crontab line.
func fields(line string) string {
	f := strings.Fields(line)
	if len(f) < 5 {
		return ""
	}
	return strings.Join(f[:5], " ")
}
