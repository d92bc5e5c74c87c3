package trust

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/mail"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// A mail is judged in two steps (docs/design.md, "The gate"). JudgeHeader needs only the
// header, so a mail that it rejects need not be fetched. JudgeBody needs the whole mail.

// UnprovenError is the error for a mail whose sender cannot be proved now, but
// may be later.
type UnprovenError struct{ Err error }

func (e *UnprovenError) Error() string { return e.Err.Error() }
func (e *UnprovenError) Unwrap() error { return e.Err }

// Verdict is the decision about a mail. The mail passes if gate is "".
type Verdict struct {
	Gate, Reason string // the gate that rejected the mail, and the evidence

	// Ask reports whether only a proof of the sender is missing, and the operator may be
	// asked for it. The gate is GateTrust.
	Ask bool

	// Doubtful reports whether the sender is proved, and the mail has a second reading. The
	// gate is GateTrust, and the operator is asked.
	Doubtful bool

	// Nameless reports whether the whole mail is one file whose name is not signed.
	Nameless bool
}

// HeaderVerdict is the verdict on the header of a mail.
type HeaderVerdict struct {
	Verdict
	fields []message.Field // parsed strictly
	from   string          // the only sender
	proofs []proof         // not empty if the header passes
}

// proof is one way to prove a mail: by one signature, or by the server's word that the mail is
// unchanged since its sender submitted it.
type proof struct {
	at     int        // VerifyDKIM: the position of its DKIM-Signature field, from the top
	covers []coverage // of each signature that may be the proof, if there are several
}

// sealed reports whether the fields of that name are as they were signed, by each such
// signature.
func (p proof) sealed(fields []message.Field, name string) bool {
	for _, c := range p.covers {
		if !c.sealed(fields, name) {
			return false
		}
	}
	return true
}

// Unproved returns the verdict on a mail that lacks only the proof.
func (f *Filter) Unproved(reason string) Verdict {
	return Verdict{Gate: GateTrust, Reason: reason, Ask: f.Challenges()}
}

// JudgeHeader judges a mail by raw, its whole header with the empty line that
// ends it. header is the same, parsed; size and arrived are those of the mail. It must
// not be called under RequireFrom.
func (f *Filter) JudgeHeader(raw []byte, header message.Header, size int64, arrived time.Time) HeaderVerdict {
	mine, gate, reason := f.Gate(header, size)
	if !mine {
		gate, reason = GateFrom, "the header differs from the one that the server reported: From: "+plain.OneLine(header.From, 200)
	}
	if gate != "" {
		return HeaderVerdict{Verdict: Verdict{Gate: gate, Reason: reason}}
	}
	fields, from, gate, reason := soleAuthor(raw, header)
	if gate != "" {
		return HeaderVerdict{Verdict: Verdict{Gate: gate, Reason: reason}}
	}
	if f.Require == RequireChallenge {
		return HeaderVerdict{Verdict: f.Unproved("only answers to a challenge are trusted")}
	}
	h := f.judgeProof(fields, from, arrived)
	if h.Gate == "" {
		h = f.judgeBinding(h, header)
	}
	return h
}

// judgeProof judges the proof of the sender by the header. It does not check whether the mail
// is for this agent.
func (f *Filter) judgeProof(fields []message.Field, from string, arrived time.Time) HeaderVerdict {
	h := HeaderVerdict{fields: fields, from: from}
	reason := ""
	find := func() (proofs []proof, reason string) { return f.signatureProofs(fields, from) }
	if f.Verify != VerifyDKIM {
		var verdict serverVerdict
		verdict, reason = f.serverVerdict(fields, from)
		find = func() (proofs []proof, reason string) { return f.serverProofs(verdict, fields, from) }
	}
	if reason == "" {
		reason = replayable(fields, arrived)
	}
	if reason == "" {
		h.proofs, reason = find()
	}
	if reason != "" {
		h.Verdict = f.Unproved(reason)
	}
	return h
}

// judgeBinding keeps only the proofs that bind the mail to this agent.
func (f *Filter) judgeBinding(h HeaderVerdict, header message.Header) HeaderVerdict {
	var bound []proof
	var first string
	for _, p := range h.proofs {
		reason := ""
		for _, c := range p.covers {
			if reason == "" {
				reason = f.unbound(c, h.fields, header)
			}
		}
		if reason == "" {
			bound = append(bound, p)
		} else if first == "" {
			first = reason
		}
	}
	if h.proofs = bound; len(bound) == 0 {
		h.Verdict = f.Unproved("no signed field shows that the mail is for this agent: " + first)
	}
	return h
}

// replayable returns the reason if the mail could be changed or old despite its proof.
func replayable(fields []message.Field, arrived time.Time) (reason string) {
	for _, name := range singleFields {
		if n := count(fields, name); n > 1 {
			return fmt.Sprintf("%d %s fields", n, name)
		}
	}
	for _, name := range signedFields {
		if count(fields, name) == 0 {
			return "no " + name + " field"
		}
	}
	value := message.Values(fields, "date")[0]
	date, err := mail.ParseDate(strings.TrimSpace(value))
	if err != nil {
		return evidence("invalid Date", value)
	}
	if arrived.Sub(date).Abs() > maxTravel {
		return fmt.Sprintf("dated %s, but arrived on %s", date.UTC().Format(time.DateOnly), arrived.UTC().Format(time.DateOnly))
	}
	return ""
}

// weakness returns the reason why a signature, even if valid, does not prove that from wrote
// the content that the agent would act on, or "".
func (f *Filter) weakness(s signature, fields []message.Field, from string) string {
	if reason := s.speaksFor(message.Domain(from)); reason != "" {
		return reason
	}
	if reason := f.boundElsewhere(s); reason != "" {
		return reason
	}
	c := s.covers()
	if missing := c.uncovered(fields); missing != "" {
		return fmt.Sprintf("the DKIM signature of %s does not cover %s", plain.OneLine(s.domain, 100), missing)
	}
	return ""
}

// BodyVerdict is the verdict on a whole mail.
type BodyVerdict struct {
	Verdict
	Digest string // of a mail whose sender is proved, otherwise ""

	// Signing describes the proof of the sender; nil without one.
	Signing *Signing

	checked []error // VerifyDKIM: the result for each DKIM-Signature field that was verified, from the top
}

// JudgeBody judges a mail whose header passed. Each call of read returns the mail from its
// first byte on.
//
// The error is an *UnprovenError if the mail can be judged only later.
func (f *Filter) JudgeBody(ctx context.Context, head HeaderVerdict, read func() (*bufio.Reader, error)) (v BodyVerdict, err error) {
	whole, err := read()
	if err != nil {
		return v, err
	}
	if f.Verify == VerifyDKIM {
		var reason string
		head.proofs, v.checked, reason, err = f.validSignatures(ctx, head, whole)
		if err != nil {
			return v, err
		}
		if reason != "" {
			v.Verdict = f.Unproved(reason)
			return v, nil
		}
		if whole, err = read(); err != nil {
			return v, err
		}
	}
	v.Signing = head.proofs[0].signing(head.fields)
	if v.Verdict, err = judgeReading(head, whole); err != nil {
		return v, err
	}
	if whole, err = read(); err != nil {
		return v, err
	}
	if _, err := message.CutHeader(whole); err != nil {
		return v, err
	}
	v.Digest, err = signedDigest(head.fields, whole)
	return v, err
}

// readingFields are the fields that determine how to read a body.
var readingFields = []string{"content-type", "content-transfer-encoding", "content-disposition"}

// unsealedBody begins the reason for a mail with a doubtful body.
const unsealedBody = "the signature does not cover the fields that define how to read the body, and "

// judgeReading returns the verdict on a mail whose sender is proved. The mail passes if its
// body has only one reading under one of the proofs.
func judgeReading(head HeaderVerdict, whole io.Reader) (v Verdict, err error) {
	for _, p := range head.proofs {
		if !slices.ContainsFunc(readingFields, func(name string) bool { return !p.sealed(head.fields, name) }) {
			return Verdict{}, nil
		}
	}
	raw, err := io.ReadAll(whole)
	if err != nil {
		return v, err
	}
	for _, p := range head.proofs {
		doubt := message.SoleReading(raw, message.SignedFields{
			Type: p.sealed(head.fields, "content-type"), Encoding: p.sealed(head.fields, "content-transfer-encoding"),
			Disposition: p.sealed(head.fields, "content-disposition"),
		})
		if doubt == nil {
			v.Gate, v.Reason, v.Doubtful = "", "", false
			break
		}
		v = Verdict{Gate: GateTrust, Reason: unsealedBody + doubt.Error(), Doubtful: true}
	}
	v.Nameless = message.IsFile(raw)
	return v, nil
}

// soleAuthor parses a header strictly, as required before anything in it is proved. from is the
// only address in From.
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
		return nil, "", GateFrom, fmt.Sprintf("From is ambiguous: %s or %s", from, plain.OneLine(header.From, 200))
	}
	return fields, from, "", ""
}
