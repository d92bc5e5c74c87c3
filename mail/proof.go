package mail

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"agentstateloop/mail/message"
)

// unprovenError is the error for a mail whose sender cannot be proved now, but
// may be later.
type unprovenError struct{ err error }

func (e *unprovenError) Error() string { return e.err.Error() }
func (e *unprovenError) Unwrap() error { return e.err }

// prove checks a mail by its own bytes, where [trust] demands a proof of the
// sender, and hands it to keep. The fields that the server picked out of the
// header were enough to see whether the mail may be for us. What comes in is
// decided by the header in the mail that is kept.
//
// An *unprovenError means that nothing was kept, and the mail is to be tried
// again.
func (sc *scanner) prove(m *Message, body io.Reader) error {
	if m.Gate != "" || sc.filter.Require == RequireFrom {
		return sc.keep(m, body)
	}
	br := bufio.NewReader(body)
	raw, err := cutHeader(br)
	if err != nil {
		return err
	}
	whole := io.MultiReader(bytes.NewReader(raw), br)

	header := message.ParseHeader(raw)
	mine, gate, reason := sc.filter.gate(header, m.Size)
	if !mine {
		gate, reason = GateFrom, "the header of the mail is not what the server had reported: From: "+oneLine(header.From, 200)
	}
	m.Header, m.Digest = header, message.Digest(header, m.At, m.Size)
	if gate != "" {
		return sc.keepAs(m, gate, reason, whole)
	}
	fields, from, gate, reason := soleAuthor(raw, header)
	switch {
	case gate != "":
		return sc.keepAs(m, gate, reason, whole)
	case sc.filter.Require == RequireChallenge:
		return sc.keepUnproved(m, "only an answer to a challenge is believed", whole)
	case sc.filter.Verify == VerifyDKIM:
		return sc.proveBySignature(m, fields, from, whole)
	}
	if reason := serverProof(fields, from, sc.filter.AuthservID, sc.filter.SameProvider); reason != "" {
		return sc.keepUnproved(m, reason, whole)
	}
	return sc.keep(m, whole)
}

// keepUnproved keeps a mail of which only the sender is in doubt.
func (sc *scanner) keepUnproved(m *Message, reason string, body io.Reader) error {
	m.Ask = sc.filter.Challenges()
	return sc.keepAs(m, GateTrust, reason, body)
}

// soleAuthor reads a header strictly, as it must be before anything in it is
// proved. It returns the one address in From.
func soleAuthor(raw []byte, header message.Header) (fields []message.Field, from, gate, reason string) {
	fields, err := message.StrictFields(raw)
	if err != nil {
		return nil, "", GateTrust, err.Error()
	}
	from, err = message.SoleSender(fields)
	if err != nil {
		return nil, "", GateFrom, err.Error()
	}
	if from != header.From {
		return nil, "", GateFrom, fmt.Sprintf("From can be read as both %s and %s", from, oneLine(header.From, 200))
	}
	return fields, from, "", ""
}

func (sc *scanner) keepAs(m *Message, gate, reason string, body io.Reader) error {
	m.Gate, m.Reason = gate, reason
	return sc.keep(m, body)
}

// proveBySignature writes the mail to a temporary file, because a signature can
// be verified only over the whole mail.
func (sc *scanner) proveBySignature(m *Message, fields []message.Field, from string, body io.Reader) error {
	spool, err := os.CreateTemp("", "agentstateloop-*.eml")
	if err != nil {
		return err
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	if _, err := io.Copy(spool, body); err != nil {
		return err
	}
	again := func() (*bufio.Reader, error) {
		_, err := spool.Seek(0, io.SeekStart)
		return bufio.NewReader(spool), err
	}

	read, err := again()
	if err != nil {
		return err
	}
	if sc.late() {
		return &unprovenError{errors.New("the time of this scan is up")}
	}
	ctx, cancel := context.WithTimeout(sc.ctx, sc.mailbox.timeout())
	defer cancel()
	reason, err := sc.filter.signatureProof(ctx, fields, m, from, read)
	sc.mailbox.startPhase(sc.conn) // the proof may have used up the time of the last phase
	if u, ok := errors.AsType[*unprovenError](err); ok && sc.mailbox.now().Sub(m.At) >= maxUnverified {
		reason, err = fmt.Sprintf("could not be proved within %v: %s", maxUnverified, oneLine(u.Error(), 200)), nil
	}
	if err != nil {
		return err
	}

	if read, err = again(); err != nil {
		return err
	}
	if reason != "" {
		return sc.keepUnproved(m, reason, read)
	}
	if _, err := cutHeader(read); err != nil {
		return err
	}
	if m.Digest, err = signedDigest(fields, read); err != nil {
		return err
	}
	if read, err = again(); err != nil {
		return err
	}
	return sc.keep(m, read)
}

// cutHeader reads up to and including the first empty line. It stops at the
// end, or a little beyond message.MaxHeader bytes.
func cutHeader(br *bufio.Reader) ([]byte, error) {
	var header []byte
	whole := true // the last line was read to its end
	for len(header) < message.MaxHeader {
		line, err := br.ReadSlice('\n')
		header = append(header, line...)
		empty := whole && len(bytes.TrimRight(line, "\r\n")) == 0
		whole = err == nil
		switch {
		case err == io.EOF || empty && err == nil:
			return header, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return header, err
		}
	}
	return header, nil
}

// deferProof notes why a mail is owed until it can be proved.
func (sc *scanner) deferProof(h *head, err error) {
	h.done, h.unproven = true, true
	if sc.unproven == nil {
		sc.unproven = fmt.Errorf("prove the sender of UID %d: %w", h.uid, err)
	}
}
