package cycle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Preview describes what a poll would do now (`poll --dry-run`).
type Preview struct {
	Before      state.Phase   `json:"before"`
	After       state.Phase   `json:"after"`
	Transitions []string      `json:"transitions"`
	Arrived     []PreviewItem `json:"arrived"`
	Rejected    []PreviewItem `json:"refused"`
	Mails       []PreviewMail `json:"mails"` // in the outbox after the poll, waiting ones included
	CrontabDiff string        `json:"crontab_diff"`

	// CrontabError is the reason why the table could not be read, or "".
	CrontabError string `json:"crontab_error"`

	Failed []SourceFailure `json:"failed"`
}

// PreviewItem is a message that would be accepted or rejected.
type PreviewItem struct {
	Key    string `json:"key"`
	From   string `json:"from"`
	Reason string `json:"reason"` // of a rejection, or ""
}

// PreviewMail is a mail, or a mesh message, that would be sent.
type PreviewMail struct {
	Channel state.Channel `json:"channel"`
	To      string        `json:"to"`
	Subject string        `json:"subject"`
	Text    string        `json:"text"`
}

// Preview reads every source and steps the machine in memory. It takes no lock,
// writes no file, marks nothing and sends nothing.
func (a *Agent) Preview(ctx context.Context) (Preview, error) { return a.previewer().preview(ctx) }

// previewer makes dry runs of a poll.
type previewer struct {
	committer
	observer *observer
	renderer *renderer
	crontab  *crontab
}

func (a *Agent) previewer() *previewer {
	return &previewer{committer: a.committer(), observer: a.observer(new(mailSession)).dryRun(), renderer: a.renderer(), crontab: a.crontab()}
}

// preview is Preview.
func (p *previewer) preview(ctx context.Context) (Preview, error) {
	s, err := p.store.Read()
	if err != nil {
		return Preview{}, err
	}
	p.observer.idKeys.dry = true
	files := new(dryFiles)
	obs := p.observer.observe(ctx, files, s, false)
	defer obs.close()
	next := p.step(s, p.journal.redact(obs.events), p.now())
	v := Preview{Before: s.Phase, After: next.Phase, Failed: obs.failed}
	for _, l := range next.Lines {
		switch l.Kind {
		case state.LineTransition:
			v.Transitions = append(v.Transitions, fmt.Sprintf("%s→%s: %s", l.Old, l.New, l.Reason))
		case state.LineMessage:
			v.Arrived = append(v.Arrived, PreviewItem{Key: l.Key, From: l.From})
		case state.LineGate:
			v.Rejected = append(v.Rejected, PreviewItem{Key: l.Key, From: l.From, Reason: l.Gate + ": " + l.Reason})
		}
	}
	for _, e := range next.Outbox {
		m, err := p.mail(next, e)
		if err != nil {
			return v, err
		}
		v.Mails = append(v.Mails, m)
	}
	if m, due := p.challenge(next, files); due {
		v.Mails = append(v.Mails, m)
	}
	if p.crontab.schedule.Mode != ModeCrontab || next.Schedule.Removed {
		return v, nil
	}
	change, err := p.crontab.schedule.Table.Preview(ctx, p.crontab.job(next))
	if err != nil {
		v.CrontabError = err.Error()
		return v, nil
	}
	v.CrontabDiff = change.Diff()
	return v, nil
}

// challenge returns the challenge that would be sent now, about an item that is in quarantine
// already or would be after this poll. The text has a placeholder for the token, which is made
// when the challenge is sent.
func (p *previewer) challenge(s state.State, files *dryFiles) (PreviewMail, bool) {
	key, due := s.ToChallenge(*p.policy, p.now())
	if !due {
		return PreviewMail{}, false
	}
	item, raw, ok := quarantine.MailIn(files.quarantined, key)
	if !ok {
		var err error
		item, raw, err = quarantine.Folder{Store: p.store}.Open(key)
		ok = err == nil
	}
	if !ok || s.WasReleased(item.Same(raw)) {
		return PreviewMail{}, false
	}
	return PreviewMail{
		Channel: state.ByMail, To: p.policy.Operator,
		Subject: challengeSubject(p.handle), Text: challengeText(p.handle, item, raw, "TOKEN"),
	}, true
}

// mail returns a row of the outbox as it would be sent.
func (p *previewer) mail(s state.State, e state.Effect) (PreviewMail, error) {
	m := PreviewMail{Channel: e.Channel, To: e.To, Subject: e.Thread.Subject}
	if e.Channel == state.ByMail && e.Thread.MessageID != "" {
		m.Subject = message.ReplySubject(m.Subject)
	}
	if e.File == "" {
		text, err := p.renderer.text(s, e)
		m.Text = text
		return m, err
	}
	data, err := p.store.ReadSummed(e.File, e.Sum)
	if errors.Is(err, store.ErrDamaged) {
		m.Text = "(" + err.Error() + ": it would be rendered again, or given up)"
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("read pending mail: %w", err)
	}
	if e.Channel == state.ByMail {
		m.Subject = message.ParseHeader(data).Subject
		m.Text = message.ReadContent(bytes.NewReader(data), message.Sent{}).Full
		return m, nil
	}
	var posted mesh.Message
	err = json.Unmarshal(data, &posted)
	m.Text = posted.Text
	return m, err
}

// TextOf returns the text of a mail of ours that a state has queued. It does not apply to answers of
// turns.
func (a *Agent) TextOf(s state.State, e state.Effect) (string, error) { return a.renderer().text(s, e) }

// dryFiles holds the payloads of a dry run, which leaves no files on disk. It keeps only
// payloads for quarantine/, in memory, because the operator may have to be asked about them.
// The limits of quarantine bound their size.
type dryFiles struct {
	mu          sync.Mutex
	quarantined map[string][]byte // by name
}

func (d *dryFiles) KeepSummed(name string, r io.Reader) (sum string, err error) {
	if !strings.HasPrefix(name, store.QuarantineDir+"/") {
		_, err := io.Copy(io.Discard, r)
		return "", err
	}
	data, err := io.ReadAll(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.quarantined == nil {
		d.quarantined = map[string][]byte{}
	}
	d.quarantined[name] = data
	return store.Sum(data), err
}

func (d *dryFiles) KeepAmong(name string, r io.Reader) error {
	_, err := d.KeepSummed(name, r)
	return err
}

func (*dryFiles) KeepAgain(_, want string, r io.Reader) (sum string, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	if sum = hex.EncodeToString(h.Sum(nil)); want != "" && sum != want {
		return "", store.ErrOtherBytes
	}
	return sum, nil
}

func (*dryFiles) Remove(string) error { return nil }

func (*dryFiles) SetAside(store.NudgeFile) error { return nil }
