package cycle

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

const (
	maxAnswered = 5       // sent mails whose text is looked for in an answer
	maxSentMail = 1 << 20 // bytes of each that are read
)

// sentFile returns the path of a sent mail. Ids are compared without regard to case.
func sentFile(effect string) string {
	return store.PayloadName(store.SentDir, strings.ToLower(effect), ".eml")
}

// contentOf reads a mail that came to the agent of st.
func contentOf(st *store.Store, raw []byte) message.Content {
	return message.ContentOf(raw, sentTexts(st, message.ParseHeader(raw)))
}

// sentTexts returns our texts that a mail with this header may repeat: those of the mails that
// it answers, as far as they are still kept. A file of ours counts only for the Message-ID that
// it has, so an invented id finds no text.
func sentTexts(st *store.Store, h message.Header) message.Sent {
	sent := message.Sent{Names: []string{st.Agent}}
	mails := 0
	for _, id := range h.Answered() {
		effect, ok := message.EffectOf(id, st.Agent)
		if !ok || mails == maxAnswered {
			continue
		}
		raw, err := st.ReadFile(sentFile(effect), maxSentMail)
		if err != nil {
			continue
		}
		ours := message.ParseHeader(raw)
		if !strings.EqualFold(ours.MessageID, id) {
			continue
		}
		mails++
		content := message.ContentOf(raw, message.Sent{})
		sent.Texts = append(sent.Texts, content.Full)
		if content.Other != "" { // a mail program may quote the HTML, which says more in a status mail
			sent.Texts = append(sent.Texts, content.Other)
		}
		sent.Names = append(sent.Names, ours.From, message.SenderName(raw))
	}
	return sent
}

// idKeys provides the key of our Message-IDs.
type idKeys struct {
	core
	dry bool // write no file
}

// filter returns the filter of m as a poll uses it, with the key.
func (k idKeys) filter(m *Mail) (f trust.Filter, err error) {
	f = m.Filter
	f.IDKey, err = k.key()
	return f, err
}

// MailFilter returns the filter as a poll would use it now. It changes nothing.
func (a *Agent) MailFilter() (trust.Filter, error) {
	keys := a.idKeys()
	keys.dry = true
	return keys.filter(a.Mail)
}

// key returns the key, and makes it if it does not exist yet. If dry is set, it makes one up
// without storing it.
func (k idKeys) key() (message.IDKey, error) {
	var key store.IDKey
	var err error
	if k.dry {
		key, err = k.store.PeekIDKey(k.now())
	} else {
		key, err = k.store.IDKey(k.now())
	}
	if err != nil {
		return message.IDKey{}, err
	}
	k.secrets.Learn(k.store.Path(store.IDKeyFile), base64.StdEncoding.EncodeToString(key.Secret))
	return message.IDKey{Secret: key.Secret}, nil
}

// filer puts copies of sent mails into the folder for sent mail ([replies] sent). It looks for
// the Message-ID before it appends, so a crash, or a server that keeps a copy itself, does not
// cause a second copy.
type filer struct {
	committer
	mail   *Mail // nil: no mail is configured
	folder string
}

// file makes the due copies, unless another process makes them. A failure of the server is not
// an error: a later poll tries again.
func (f *filer) file(ctx context.Context) error {
	if f.mail == nil || f.folder == "" {
		return nil
	}
	s, err := f.store.Read()
	if err != nil || len(s.UnfiledDue(f.now())) == 0 {
		return err
	}
	_, err = withLock(f.store, store.SentLock, func() error { return f.fileDue(ctx) })
	return err
}

// fileDue is file for a caller that holds sent.lock.
func (f *filer) fileDue(ctx context.Context) error {
	s, err := f.store.Read()
	if err != nil {
		return err
	}
	due := s.UnfiledDue(f.now())
	if len(due) == 0 {
		return nil
	}
	folder, err := f.mail.Mailbox.OpenFolder(ctx, f.folder)
	if err != nil {
		return f.recordFailure(ctx, due[0], err)
	}
	defer folder.Close()
	for began := f.now(); len(due) > 0 && mayStart(began, f.now()) && ctx.Err() == nil; due = due[1:] {
		bounded, release, err := f.mayBegin(ctx)
		if err != nil {
			f.logf("no copy of %s in %s yet: %v", due[0].ID, f.folder, err)
			return nil
		}
		err = f.fileOne(bounded, folder, due[0])
		release()
		if err != nil {
			return f.recordFailure(ctx, due[0], err)
		}
		if _, err := f.journal.commit(ctx, state.Filed{ID: due[0].ID}); err != nil {
			return err
		}
	}
	return nil
}

// recordFailure records why a copy could not be made. The other copies wait for a later poll, too.
func (f *filer) recordFailure(ctx context.Context, u state.Unfiled, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	f.logf("no copy of %s in %s yet: %v", u.ID, f.folder, err)
	_, err = f.journal.commit(ctx, state.Filed{ID: u.ID, Failed: err.Error(), Never: neverFiled(err)})
	return err
}

// neverFiled reports whether the copy can never be made: its bytes are gone, or the server
// refuses it.
func neverFiled(err error) bool {
	return errors.Is(err, store.ErrDamaged) || errors.Is(err, mail.ErrTooBig)
}

// fileOne makes one copy.
func (f *filer) fileOne(ctx context.Context, folder *mail.Session, u state.Unfiled) error {
	rendered, err := f.store.ReadSummed(sentFile(u.ID), u.Sum)
	if err != nil {
		return store.Damaged(sentFile(u.ID), err)
	}
	there, err := folder.Holds(ctx, message.ParseHeader(rendered).MessageID)
	if err != nil || there {
		return err
	}
	size := int64(len(rendered))
	row := state.Effect{ID: u.ID, File: sentFile(u.ID), Files: u.Files}
	if len(u.Files) > 0 { // IMAP needs the size first
		whole, closeAll, err := wholeMail(f.store, row, rendered)
		if err != nil {
			return err
		}
		size, err = io.Copy(io.Discard, whole)
		closeAll()
		if err != nil {
			return err
		}
	}
	whole, closeAll, err := wholeMail(f.store, row, rendered)
	if err != nil {
		return err
	}
	defer closeAll()
	return folder.Append(ctx, size, whole, u.Sent)
}
