package mail

import (
	"bufio"
	"context"
	"fmt"

	"agentstateloop/mail/message"
)

// A mail is judged in two steps (docs/design.md, "The gate"). judgeHeader needs
// only the header, so what it rejects need not be fetched. judgeBody needs the
// whole mail.

// verdict is what a judgement says about a mail. It passes if gate is "".
type verdict struct {
	gate, reason string // as in Message
	ask          bool   // as in Message
}

// headerVerdict is what the header of a mail says.
type headerVerdict struct {
	verdict
	fields []message.Field // read strictly
	from   string          // the one sender
}

// unproved returns the verdict on a mail of which only the proof is missing.
func (f Filter) unproved(reason string) verdict {
	return verdict{gate: GateTrust, reason: reason, ask: f.Challenges()}
}

// judgeHeader judges a mail by raw, its whole header with the empty line that
// ends it. m has the same header, parsed, and the size and the arrival of the
// mail. It must not be called under RequireFrom.
func (f Filter) judgeHeader(raw []byte, m *Message) headerVerdict {
	mine, gate, reason := f.gate(m.Header, m.Size)
	if !mine {
		gate, reason = GateFrom, "the header of the mail is not what the server had reported: From: "+oneLine(m.Header.From, 200)
	}
	if gate != "" {
		return headerVerdict{verdict: verdict{gate: gate, reason: reason}}
	}
	fields, from, gate, reason := soleAuthor(raw, m.Header)
	if gate != "" {
		return headerVerdict{verdict: verdict{gate: gate, reason: reason}}
	}
	if f.Require == RequireChallenge {
		return headerVerdict{verdict: f.unproved("only an answer to a challenge is believed")}
	}
	return f.judgeProof(fields, from, m)
}

// judgeProof judges what the header says about its own proof.
func (f Filter) judgeProof(fields []message.Field, from string, m *Message) headerVerdict {
	h := headerVerdict{fields: fields, from: from}
	reason := ""
	if f.Verify == VerifyDKIM {
		reason = replayable(fields, m.At)
	} else {
		reason = serverProof(fields, from, f.AuthservID, f.SameProvider)
	}
	if reason != "" {
		h.verdict = f.unproved(reason)
	}
	return h
}

// judgeBody judges a mail whose header passed. read returns the mail from its
// first byte on, each time that it is called. For a mail that passes, digest is
// its digest.
//
// The error is an *unprovenError if the mail can be judged only later.
func (f Filter) judgeBody(ctx context.Context, head headerVerdict, m *Message, read func() (*bufio.Reader, error)) (v verdict, digest string, err error) {
	whole, err := read()
	if err != nil {
		return v, "", err
	}
	reason, err := f.signatureProof(ctx, head.fields, m, head.from, whole)
	if err != nil {
		return v, "", err
	}
	if reason != "" {
		return f.unproved(reason), "", nil
	}
	if whole, err = read(); err != nil {
		return v, "", err
	}
	if _, err := cutHeader(whole); err != nil {
		return v, "", err
	}
	digest, err = signedDigest(head.fields, whole)
	return v, digest, err
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
