package mail

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
)

// maxUnverified is how long a mail waits for its key, from its arrival on.
const maxUnverified = 24 * time.Hour

// prove checks a mail by its own bytes, if [trust] demands a proof of the sender, and hands it
// to keep. The header fields that the server picked out were enough to see whether the mail may
// be for us. The header in the kept mail decides whether it is accepted.
//
// After an *UnprovenError the mail is not kept, and must be tried again.
func (sc *scanner) prove(m *Message, body io.Reader) error {
	if m.Gate != "" || sc.filter.Require == trust.RequireFrom {
		return sc.keep(m, body)
	}
	br := bufio.NewReader(body)
	raw, err := message.CutHeader(br)
	if err != nil {
		return err
	}
	whole := io.MultiReader(bytes.NewReader(raw), br)

	m.Header = message.ParseHeader(raw)
	m.Digest = message.Digest(m.Header, m.At, m.Size)
	head := sc.filter.JudgeHeader(raw, m.Header, m.Size, m.At)
	if head.Gate != "" {
		return sc.keepRejected(m, head.Verdict, whole)
	}
	return sc.proveBody(m, head, whole)
}

func (sc *scanner) keepRejected(m *Message, v trust.Verdict, body io.Reader) error {
	m.Gate, m.Reason, m.Ask, m.Doubtful = v.Gate, v.Reason, v.Ask, v.Doubtful
	return sc.keep(m, body)
}

// proveBody writes the mail to a temporary file, because it must be read to its end before its
// first byte is kept.
func (sc *scanner) proveBody(m *Message, head trust.HeaderVerdict, body io.Reader) error {
	if sc.filter.Verify == trust.VerifyDKIM && sc.late() {
		return &trust.UnprovenError{Err: errors.New("the time limit of the scan is reached")}
	}
	whole, err := newSpool(body)
	if err != nil {
		return err
	}
	defer whole.close()

	ctx, cancel := context.WithTimeout(sc.ctx, sc.mailbox.timeout())
	defer cancel()
	sc.conn.paced.pause() // the time for the proof is not the server's fault
	v, digest, err := sc.filter.JudgeBody(ctx, head, whole.fromStart)
	sc.conn.paced.resume()
	if u, ok := errors.AsType[*trust.UnprovenError](err); ok && sc.mailbox.now().Sub(m.At) >= maxUnverified {
		v, err = sc.filter.Unproved(fmt.Sprintf("could not be proved within %v: %s", maxUnverified, plain.OneLine(u.Error(), 200))), nil
	}
	if err != nil {
		return err
	}
	read, err := whole.fromStart()
	if err != nil {
		return err
	}
	if digest != "" {
		m.OldDigest, m.Digest = m.Digest, digest
	}
	m.Nameless = v.Nameless
	if v.Gate != "" {
		return sc.keepRejected(m, v, read)
	}
	return sc.keep(m, read)
}

// deferProof records why a mail is owed until it can be proved.
func (sc *scanner) deferProof(h *head, err error) {
	h.done, h.unproven = true, true
	if sc.unproven == nil {
		sc.unproven = fmt.Errorf("prove the sender of UID %d: %w", h.uid, err)
	}
}

// spool holds a mail on disk while it is being proved. Its file has no name, so it disappears
// when the process ends, for whatever reason.
type spool struct{ file *os.File }

// newSpool reads a mail to its end. close frees the space.
func newSpool(mail io.Reader) (spool, error) {
	file, err := os.CreateTemp("", "agentstateloop-*.eml")
	if err != nil {
		return spool{}, err
	}
	s := spool{file}
	if err := os.Remove(file.Name()); err != nil {
		s.close()
		return spool{}, fmt.Errorf("unlink temporary file: %w", err)
	}
	if _, err := io.Copy(file, mail); err != nil {
		s.close()
		return spool{}, err
	}
	return s, nil
}

// fromStart returns a reader of the whole mail. The previous reader cannot be used any more.
func (s spool) fromStart() (*bufio.Reader, error) {
	_, err := s.file.Seek(0, io.SeekStart)
	return bufio.NewReader(s.file), err
}

func (s spool) close() { s.file.Close() }
