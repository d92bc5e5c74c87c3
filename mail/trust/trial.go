package trust

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// Trial describes how the gate would judge one mail of the operator.
type Trial struct {
	At         time.Time // INTERNALDATE
	From       string
	ForUs      bool   // it calls the agent, or answers a mail of the agent
	AuthservID string // the topmost authserv-id; "" without one

	// Gate is "" for mail that would be accepted if it is for us. Otherwise it is the gate that
	// would reject the mail, and Reason is the evidence.
	Gate, Reason string

	// Signing describes the signature that proves the sender; nil without one. SPFAlone is true
	// if the server proves the sender by SPF and not by a signature. Doubtful is true if the
	// fields that determine how to read the body are not signed and the body has more than one
	// reading.
	Signing  *Signing
	SPFAlone bool
	Doubtful bool

	// NoAnswer is the error of the DNS lookup of the signing key. Until a lookup succeeds, it
	// is unknown whether the signature is valid.
	NoAnswer error
}

// Try checks one mail of the operator, of which raw holds the first maxBytes bytes. For one that
// is not for this agent it still reports whether the sender is proved.
func (f *Filter) Try(ctx context.Context, raw []byte, size int64, at time.Time, maxBytes int64) Trial {
	header := message.ParseHeader(raw)
	t := Trial{At: at, From: header.From, AuthservID: TopAuthservID(raw)}
	t.ForUs, t.Gate, t.Reason = f.Gate(header, size)
	if t.Gate != "" || f.Require != RequireDMARC {
		return t
	}
	rawHeader, err := message.CutHeader(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		t.Gate, t.Reason = GateTrust, err.Error()
		return t
	}
	fields, from, gate, reason := soleAuthor(rawHeader, header)
	if gate != "" {
		t.Gate, t.Reason = gate, reason
		return t
	}
	head := f.judgeProof(fields, from, at)
	t.SPFAlone = f.provedBySPFOnly(fields, from)
	if len(head.proofs) > 0 {
		t.Signing = head.proofs[0].signing(fields)
	}
	if head.Gate == "" && t.ForUs {
		head = f.judgeBinding(head, header)
	}
	v := head.Verdict
	switch {
	case v.Gate != "":
	case size > maxBytes && f.Verify != VerifyDKIM:
	case size > maxBytes:
		v = f.Unproved(fmt.Sprintf("%d bytes: too long to verify its signature here", size))
	default:
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		whole := func() (*bufio.Reader, error) { return bufio.NewReader(bytes.NewReader(raw)), nil }
		body, err := f.JudgeBody(ctx, head, whole)
		if v = body.Verdict; err != nil {
			v = f.Unproved(err.Error())
			if u, ok := errors.AsType[*UnprovenError](err); ok {
				t.NoAnswer = u.Err
			}
		}
	}
	t.Gate, t.Reason = v.Gate, v.Reason
	t.Doubtful = v.Doubtful
	if v.Gate != "" && head.Gate == "" && !t.Doubtful {
		t.Signing = nil // the signature is not valid
	}
	return t
}

// TopAuthservID returns the authserv-id of the first Authentication-Results
// field, or "".
func TopAuthservID(header []byte) string {
	for _, f := range message.Fields(header) {
		if f.Name == "authentication-results" {
			id, err := authserv(f.Value)
			if err != nil {
				return ""
			}
			return plain.OneLine(id, 100)
		}
	}
	return ""
}
