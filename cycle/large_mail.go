package cycle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"time"

	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// largeMail fetches the large mails that a scan has left out (docs/design.md, "Large mail"):
// one after another, after a cycle and next to its turns, so that they do not delay other work.
type largeMail struct {
	committer
	mail     *Mail // nil: no mail is configured
	observer *observer
	flusher  *flusher
}

// due returns the UIDs of the mails to fetch now. It returns no UIDs while the inbox is full.
func (l *largeMail) due(s state.State) []uint32 {
	if room, _ := takeLimits(s); l.mail == nil || room <= 0 {
		return nil
	}
	return s.Cursor.LargeDue(l.now())
}

// waits reports whether a large mail is due and no process fetches it.
func (l *largeMail) waits() (bool, error) {
	s, err := l.store.Read()
	if err != nil || len(l.due(s)) == 0 {
		return false, err
	}
	return withLock(l.store, store.FetchLock, func() error { return nil })
}

// largeFetch is a poll's background fetch of large mail.
type largeFetch struct {
	arrived chan struct{} // holds one value if a mail has come since the last read
	ended   chan struct{} // closed at the end; then report and err are set
	report  Report
	err     error
}

// begin fetches the due mails in the background. It does nothing if another process fetches
// large mail.
func (l *largeMail) begin(ctx context.Context) *largeFetch {
	f := &largeFetch{arrived: make(chan struct{}, 1), ended: make(chan struct{})}
	waits, err := l.waits()
	if err != nil || !waits {
		f.err = err
		close(f.ended)
		return f
	}
	go l.secrets.Guarded(func() {
		defer close(f.ended)
		_, f.err = withLock(l.store, store.FetchLock, func() error { return l.fetchAll(ctx, f) })
	})()
	return f
}

// wait waits for the end of the fetch, and calls turns when a mail has come. It adds the
// results to the report.
func (f *largeFetch) wait(r *Report, turns func() error) error {
	var errs []error
	for {
		select {
		case <-f.arrived:
			errs = append(errs, turns())
		case <-f.ended:
			if len(f.arrived) > 0 {
				continue
			}
			r.Arrived += f.report.Arrived
			r.Rejected += f.report.Rejected
			r.Sent += f.report.Sent
			r.Posted += f.report.Posted
			r.fail(f.report.Failed)
			return errors.Join(append(errs, f.err)...)
		}
	}
}

// fetchAll fetches every large mail that is due, each once. The caller holds
// fetch.lock.
func (l *largeMail) fetchAll(ctx context.Context, f *largeFetch) error {
	tried := map[string]bool{}
	for ctx.Err() == nil {
		s, err := l.store.Read()
		if err != nil {
			return err
		}
		due := slices.DeleteFunc(l.due(s), func(uid uint32) bool { return tried[s.Cursor.Key(uid)] })
		if len(due) == 0 {
			return nil
		}
		tried[s.Cursor.Key(due[0])] = true
		if err := l.fetch(ctx, s, due[0], f); err != nil {
			return err
		}
	}
	return nil
}

// fetch fetches one mail and commits the result. Server failures go into the report.
func (l *largeMail) fetch(ctx context.Context, s state.State, uid uint32, f *largeFetch) error {
	began := l.now()
	events, failed := l.observer.observeLarge(ctx, s, uid)
	f.report.fail(failed)
	for _, failure := range failed {
		l.logf("large mail %s: %s", s.Cursor.Key(uid), failure.Reason)
	}
	if len(events) == 0 {
		return nil
	}
	s, err := l.journal.commit(ctx, events...)
	if err != nil {
		return err
	}
	var counts Report
	counts.count(s)
	if counts.Arrived+counts.Rejected > 0 {
		l.logf("large mail %s: fetched in %v", s.Cursor.Key(uid), l.now().Sub(began).Round(time.Second))
	}
	err = l.flusher.sendDue(ctx, s, &f.report) // the ack
	f.report.Arrived += counts.Arrived
	f.report.Rejected += counts.Rejected
	if counts.Arrived > 0 {
		select {
		case f.arrived <- struct{}{}:
		default: // noted already
		}
	}
	return err
}

// observeLarge fetches one large mail, and returns the events to commit. It returns no events
// if the server was not reached, or if ctx ended.
func (o *observer) observeLarge(ctx context.Context, s state.State, uid uint32) ([]state.Event, []SourceFailure) {
	var obs observation
	filter, err := o.idKeys.filter(o.mail)
	if err != nil {
		obs.fail(state.Mail, err)
		return nil, obs.failed
	}
	ad := o.accepter.admission(o.store, s)
	mailbox := o.mail.Mailbox
	mailbox.Room = ad.mayKeep
	session, err := mailbox.Open(ctx)
	if err != nil {
		obs.fail(state.Mail, err)
		return nil, obs.failed
	}
	defer session.Close()
	ad.lookBack(ctx, session, filter)
	events := map[string]state.Event{} // by key
	scan, err := session.FetchLarge(ctx, s.Cursor, uid, filter, func(m *mail.Message, raw io.Reader) (err error) {
		events[m.Key], err = ad.takeMail(m, raw)
		return err
	})
	if errors.Is(err, mail.ErrOtherMailbox) || ctx.Err() != nil && len(scan.Messages) == 0 {
		return nil, nil
	}
	if err != nil {
		obs.fail(state.Mail, fmt.Errorf("large mail: %w", err))
	} else {
		obs.failWithheld(scan)
	}
	obs.events = append(obs.events, state.LargeFetched{UID: uid, Cursor: scan.Cursor})
	ad.endLookBack(&obs, events)
	obs.addScan(scan, events)
	obs.events = append(obs.events, ad.quarantine.Events()...)
	return obs.events, obs.failed
}

// wholeMail returns a reader of the mail of an effect: the rendered bytes, with the attachments
// that are kept apart. Each attachment is compared with its sum beforehand, and again during
// the send: a difference is then an error of the reader, before the final dot. Files need not
// fit into memory. The caller calls closeAll.
func wholeMail(st *store.Store, e state.Effect, rendered []byte) (whole io.Reader, closeAll func(), err error) {
	var opened []*os.File
	closeAll = func() {
		for _, f := range opened {
			f.Close()
		}
	}
	var contents []io.Reader
	for _, ref := range e.Files {
		f, err := st.OpenSummed(ref.File, ref.Sum, ref.Size)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		opened = append(opened, f)
		contents = append(contents, &summedReader{from: f, name: ref.File, sum: ref.Sum, hash: sha256.New()})
	}
	if len(contents) == 0 {
		return bytes.NewReader(rendered), closeAll, nil
	}
	if whole, err = message.Whole(rendered, contents); err != nil {
		closeAll()
		return nil, nil, store.Damaged(e.File, err)
	}
	return whole, closeAll, nil
}

// summedReader reads a file, and fails at its end if the content does not match its sum.
type summedReader struct {
	from      io.Reader
	name, sum string
	hash      hash.Hash
}

func (r *summedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.hash.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(r.hash.Sum(nil)) != r.sum {
		err = store.Damaged(r.name, errors.New("it changed while it was being sent"))
	}
	return n, err
}

// mailSession is a poll's connection to the mailbox. It stays open from observing to marking
// \Seen, so a poll costs one login. A lingering poll also keeps it open afterwards.
type mailSession struct {
	lingers bool
	watch   *mail.Watch // of the last poll, if it lingers
}

// open opens the mailbox for one observation.
func (m *mailSession) open(ctx context.Context, box mail.Mailbox) (*mail.Session, error) {
	if !m.lingers {
		return box.Open(ctx)
	}
	w, err := box.Watch(ctx)
	if err != nil {
		return nil, err
	}
	m.close()
	m.watch = w
	return w.Session, nil
}

// done ends an observation's use of the mailbox.
func (m *mailSession) done(obs *observation) {
	if !m.lingers {
		obs.close()
	}
}

// close closes the connection that a lingering poll has kept.
func (m *mailSession) close() {
	if m.watch != nil {
		m.watch.Close()
		m.watch = nil
	}
}
