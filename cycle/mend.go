package cycle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// payloadGuard prevents turns with a damaged message (docs/design.md, "Damaged files").
type payloadGuard struct {
	committer
}

// check reads the payload of the message that would have its turn next. While that payload is
// damaged, check commits the damage and goes on with the next message. It returns the number of
// damaged messages.
func (g *payloadGuard) check(ctx context.Context, p state.Policy) (damaged int, err error) {
	s, err := g.store.Read()
	for found := map[string]bool{}; err == nil; damaged++ {
		msg, broken := g.firstDamaged(s.NextLease(p, g.now()))
		if broken == nil || found[msg.Key] { // a suspended turn goes on without it
			return damaged, nil
		}
		found[msg.Key] = true
		s, err = g.journal.commit(ctx, state.Damaged{Key: msg.Key, Reason: broken.Error()})
	}
	return damaged, err
}

// firstDamaged returns the first damaged message and its damage. It ignores other read errors:
// the turn meets them again and reports them.
func (g *payloadGuard) firstDamaged(all []state.Message) (state.Message, error) {
	for _, msg := range all {
		if _, err := g.store.ReadSummed(msg.Payload, msg.Sum); errors.Is(err, store.ErrDamaged) {
			return msg, err
		}
	}
	return state.Message{}, nil
}

// refetch fetches the damaged mails in the inbox again, through the open session of this
// observation. It accepts a mail only with the original bytes. It begins no fetch after until.
func (o *observer) refetch(ctx context.Context, ad *admission, obs *observation, until time.Time) {
	for _, msg := range ad.state.Inbox {
		if !msg.Damaged || msg.Source != state.Mail || obs.mailbox == nil || time.Now().After(until) {
			continue
		}
		err := mail.ErrNotThere
		if uid, ours := obs.mailbox.UID(cmp.Or(msg.FollowsUp, msg.Key)); ours {
			err = obs.mailbox.Refetch(ctx, uid, func(raw io.Reader) error {
				_, err := ad.files.KeepAgain(msg.Payload, msg.Sum, raw)
				return err
			})
		}
		switch {
		case err == nil:
			obs.events = append(obs.events, state.Mended{Key: msg.Key})
		case errors.Is(err, mail.ErrNotThere), errors.Is(err, store.ErrOtherBytes):
			obs.events = append(obs.events, state.NotMended{Key: msg.Key, Reason: err.Error()})
		default:
			obs.close()
			obs.fail(state.Mail, err)
		}
	}
}

// effectMender reads the files of effects, and renders damaged ones again (docs/design.md,
// "Damaged files").
type effectMender struct {
	core
	renderer *renderer
	replier  *replier
}

// read returns the bytes of an effect, checked against its row. If they are unreadable, it
// returns events that update the row instead. The file may be whole again once these are
// committed.
func (em *effectMender) read(s state.State, e state.Effect) ([]byte, []state.Event) {
	data, err := em.store.ReadSummed(e.File, e.Sum)
	if err == nil && !isFor(e, data) {
		err = store.Damaged(e.File, errors.New("it is not addressed to "+e.To))
	}
	switch {
	case err == nil:
		return data, nil
	case !errors.Is(err, store.ErrDamaged):
		return nil, []state.Event{state.SendFailed{ID: e.ID, Unknown: e.Unknown, Reason: err.Error()}}
	case e.Kind == state.Challenge && !e.MayHaveLeft():
		return nil, []state.Event{state.AskAgain{ID: e.ID, Reason: err.Error()}}
	}
	return nil, []state.Event{em.mend(s, e, err)}
}

// isFor reports whether the bytes of an effect name its recipient.
func isFor(e state.Effect, data []byte) bool {
	if e.Channel == state.ByMail {
		to := strings.Join(message.Values(message.Fields(data), "to"), ",")
		return slices.Equal(message.Addresses(to), []string{message.NormalAddress(e.To)})
	}
	var m mesh.Message
	return json.Unmarshal(data, &m) == nil && m.ID == e.ID && m.To == e.To
}

// mend renders the file of an effect again. If a copy may have left, only the same bytes may
// replace the damaged ones.
func (em *effectMender) mend(s state.State, e state.Effect, damage error) state.Event {
	failed := state.SendFailed{ID: e.ID, Permanent: true, Unknown: e.MayHaveLeft()}
	fresh, err := em.render(s, e)
	if err != nil {
		failed.Reason = fmt.Sprintf("%v, and it cannot be rendered again: %v", damage, err)
		return failed
	}
	if e.MayHaveLeft() && store.Sum(fresh) != e.Sum {
		failed.Reason = fmt.Sprintf("%v; a copy may have arrived, so it is not sent again", damage)
		return failed
	}
	sum, err := em.store.KeepAgain(e.File, "", bytes.NewReader(fresh))
	if err != nil {
		return state.SendFailed{ID: e.ID, Unknown: e.Unknown, Reason: fmt.Sprintf("%v, and it cannot be written again: %v", damage, err)}
	}
	return state.Rendered{ID: e.ID, Sum: sum, Reason: damage.Error()}
}

// render renders an effect again from its original input.
func (em *effectMender) render(s state.State, e state.Effect) ([]byte, error) {
	switch {
	case e.Channel == state.ByMail && em.renderer.mail == nil:
		return nil, errors.New("no mail is configured any more")
	case e.Origin != "":
		return em.replier.rerender(e)
	case e.Kind == state.Challenge, e.Kind == state.Reply && e.Text == "":
		return nil, errors.New("its source was not recorded")
	}
	return em.renderer.render(s, e, em.now())
}

// CheckFiles reads every file that the state names, and every item in quarantine. It returns
// the number of files, and an error for each damaged one, which names the file. It takes no
// lock, and leaves out files that a poll moves meanwhile.
func (a *Agent) CheckFiles() (n int, damaged []error, err error) { return a.fileChecker().check() }

// fileChecker reads the files that the state names.
type fileChecker struct {
	store      *store.Store
	quarantine func() ([]quarantine.Item, error)
}

func (a *Agent) fileChecker() fileChecker {
	return fileChecker{store: a.Store, quarantine: a.View().Quarantined}
}

// check is CheckFiles.
func (c fileChecker) check() (n int, damaged []error, err error) {
	list, err := c.named()
	if err != nil {
		return 0, nil, err
	}
	broken := map[files.SummedFile]error{}
	for _, f := range list {
		if _, err := c.store.ReadSummed(f.Name, f.Sum); errors.Is(err, store.ErrDamaged) {
			broken[f] = err
		}
	}
	if len(broken) == 0 {
		return len(list), nil, nil
	}
	still, err := c.named()
	for _, f := range still {
		if e, ok := broken[f]; ok {
			damaged = append(damaged, e)
		}
	}
	return len(list), damaged, err
}

// named returns the files that the state names now, and those of the items in
// quarantine.
func (c fileChecker) named() ([]files.SummedFile, error) {
	s, err := c.store.Read()
	if err != nil {
		return nil, err
	}
	items, err := c.quarantine()
	if err != nil {
		return nil, err
	}
	var list []files.SummedFile
	for _, m := range s.Inbox {
		list = append(list, files.SummedFile{Name: m.Payload, Sum: m.Sum})
		list = append(list, files.Incoming{Store: c.store}.FilesOf(m)...)
	}
	for _, e := range slices.Concat(s.Outbox, s.Undelivered, s.HookCalls) {
		list = append(list, files.SummedFile{Name: e.File, Sum: e.Sum})
		for _, f := range e.Files {
			list = append(list, files.SummedFile{Name: f.File, Sum: f.Sum})
		}
	}
	for _, w := range s.Turn.Waiting {
		if w.Report != "" {
			list = append(list, files.SummedFile{Name: w.Report, Sum: w.Sum})
			list = append(list, files.Incoming{Store: c.store}.FilesIn(w.Report, w.Sum)...)
		}
	}
	for _, x := range s.Expected {
		list = append(list, files.SummedFile{Name: x.Cause.Payload, Sum: x.Cause.Sum})
		list = append(list, files.Incoming{Store: c.store}.FilesOf(x.Cause)...)
		if x.Report != "" {
			list = append(list, files.SummedFile{Name: x.Report, Sum: x.Sum})
			list = append(list, files.Incoming{Store: c.store}.FilesIn(x.Report, x.Sum)...)
		}
	}
	if s.Turn.Submitted != "" {
		list = append(list, files.SummedFile{Name: path.Join(store.AttemptDir(s.Turn.TurnID, s.Turn.Epoch), s.Turn.Submitted), Sum: s.Turn.SubmittedSum})
	}
	for _, i := range items {
		list = append(list, files.SummedFile{Name: i.Payload, Sum: i.Sum})
		for n, f := range (files.QuarantinedFiles{Store: c.store}).Named(i) {
			if f.Missing == "" {
				list = append(list, files.SummedFile{Name: files.QuarantinedName(i.Key, n), Sum: f.SHA256})
			}
		}
	}
	return list, nil
}
