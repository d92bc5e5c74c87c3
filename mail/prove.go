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
func (j *Judge) prove(ctx context.Context, m *Message, body io.Reader, keep Keep) (v trust.BodyVerdict, err error) {
	if m.Gate != "" || j.Filter.Require == trust.RequireFrom {
		return v, keep(m, body)
	}
	br := bufio.NewReader(body)
	raw, err := message.CutHeader(br)
	if err != nil {
		return v, err
	}
	whole := io.MultiReader(bytes.NewReader(raw), br)

	m.Header = message.ParseHeader(raw)
	m.Digest = message.Digest(m.Header, m.At, m.Size)
	head := j.Filter.JudgeHeader(raw, m.Header, m.Size, m.At)
	if head.Gate != "" {
		m.judged(head.Verdict)
		return v, keep(m, whole)
	}
	return j.proveBody(ctx, m, head, whole, keep)
}

// proveBody writes the mail to a temporary file, because it must be read to its end before its
// first byte is kept.
func (j *Judge) proveBody(ctx context.Context, m *Message, head trust.HeaderVerdict, body io.Reader, keep Keep) (v trust.BodyVerdict, err error) {
	if j.Filter.Verify == trust.VerifyDKIM && j.late() {
		return v, &trust.UnprovenError{Err: errors.New("the time limit of the scan is reached")}
	}
	whole, err := newSpool(body)
	if err != nil {
		return v, err
	}
	defer whole.close()

	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	release := j.hold()
	v, err = j.Filter.JudgeBody(ctx, head, whole.fromStart)
	release()
	if u, ok := errors.AsType[*trust.UnprovenError](err); ok && j.Now().Sub(m.At) >= maxUnverified {
		v.Verdict, err = j.Filter.Unproved(fmt.Sprintf("could not be proved within %v: %s", maxUnverified, plain.OneLine(u.Error(), 200))), nil
	}
	if err != nil {
		return v, err
	}
	read, err := whole.fromStart()
	if err != nil {
		return v, err
	}
	if v.Digest != "" {
		m.OldDigest, m.Digest = m.Digest, v.Digest
	}
	m.Nameless = v.Nameless
	if v.Gate != "" {
		m.judged(v.Verdict)
	}
	return v, keep(m, read)
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
