package mail

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
)

// Judge decides about one mail at a time: whether it is for this agent, whether the gates let it
// in, and who wrote it. A scan decides by it, and so does everything that explains a scan.
type Judge struct {
	Filter  trust.Filter
	Now     func() time.Time      // decides how long a mail may wait for its proof
	Room    func(m *Message) bool // see Mailbox.Room; nil accepts all mail
	Timeout time.Duration         // of one proof

	// late reports whether no proof may begin any more, and hold is called before each proof. What
	// it returns is called after the proof.
	late func() bool
	hold func() (release func())
}

// NewJudge returns a judge that decides as a scan of m with this filter does.
func (m *Mailbox) NewJudge(f trust.Filter) *Judge {
	return &Judge{
		Filter: f.WithKeyCache(), Now: m.now, Room: m.Room, Timeout: m.timeout(),
		late: func() bool { return false }, hold: func() func() { return func() {} },
	}
}

// Judged is the decision about a mail.
type Judged struct {
	// Message is the mail as Scan returns it, with its gate and its reason. If the mail is not for
	// this agent, it has only the header, the time and the size.
	Message   Message
	Addressee trust.Addressee
	Evidence  trust.Evidence // of the sender; empty if the mail is not for this agent

	// Beyond reports whether the header rejects the mail and Room has refused it: the mail is only
	// counted.
	Beyond bool

	// Unproven is the reason why the sender cannot be proved now; nil if it is decided. A scan
	// would try again.
	Unproven error

	// Report is the statement of a delivery report about a mail of ours. Forged reports whether the
	// report names a mail that only looks like ours.
	Report *trust.Returned
	Forged bool

	// Uncalled reports whether the operator wrote the mail to this agent's address, and its subject
	// calls no agent.
	Uncalled bool
}

// Mail decides about a whole mail as a scan would that finds it now, under key. raw is the mail
// with the line ends of the network, and at its INTERNALDATE. A mail to keep is handed to keep.
//
// The raw bytes may be cut if the mail is larger than the limit of the filter; size is that of
// the whole mail.
func (j *Judge) Mail(ctx context.Context, key string, raw []byte, size int64, at time.Time, keep Keep) (Judged, error) {
	v := Judged{Evidence: trust.NoEvidence()}
	header, err := message.CutHeader(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		return v, err
	}
	h := j.head(header, Message{Key: key, At: at.UTC(), Size: size})
	v.Message, v.Uncalled, v.Addressee = h.message, h.uncalled, j.Filter.Addressee(h.message.Header)
	if h.report {
		r, ok, forged := j.Filter.ReadReport(raw[:min(len(raw), reportLength)])
		r.Key, r.At, v.Forged = key, at.UTC(), forged
		if ok {
			v.Report = &r
		}
	}
	if !h.mine {
		return v, nil
	}
	if j.noKeyExists(ctx, h.keys) {
		h.rejected = j.withoutKey(h.message, h.keys[0])
	}
	if h.rejected != nil && j.Room != nil && !j.Room(h.rejected) {
		v.Message, v.Beyond = *h.rejected, true
		v.Evidence = j.Filter.Evidence(header, v.Message.Header.From, trust.BodyVerdict{})
		return v, nil
	}
	body, err := j.body(ctx, &v.Message, bytes.NewReader(raw), size, keep)
	var unproven *trust.UnprovenError
	if errors.As(err, &unproven) {
		v.Unproven, err = unproven, nil
	}
	v.Evidence = j.Filter.Evidence(header, v.Message.Header.From, body)
	return v, err
}

// headVerdict is the decision about the header of a mail.
type headVerdict struct {
	message  Message
	mine     bool            // the mail is for this agent
	report   bool            // it may be a delivery report
	likely   bool            // the report names one of our IDs
	uncalled bool            // see Judged.Uncalled; only if it is not for this agent
	rejected *Message        // message with the verdict of the gates on the header; nil if it passes
	keys     []trust.KeyName // of the signatures that may prove it; VerifyDKIM only
}

// head decides about a mail by raw, its header. m has its other properties. A mail whose header
// lacks a proof is judged again by its body.
func (j *Judge) head(raw []byte, m Message) headVerdict {
	f := &j.Filter
	m.Header = message.ParseHeader(raw)
	mine, gate, reason := f.Gate(m.Header, m.Size)
	v := headVerdict{mine: mine, report: !mine || gate == trust.GateBounce || gate == trust.GateAuto}
	if v.report {
		v.report, v.likely = f.ReportsToUs(raw)
	}
	if !mine {
		v.message, v.uncalled = m, f.Uncalled(raw, m.Header)
		return v
	}
	m.CallsOthers = f.CallsOthers(m.Header.Subject)
	m.Digest, m.Gate, m.Reason = message.Digest(m.Header, m.At, m.Size), gate, reason
	v.message = m
	if gate == "" && f.Require != trust.RequireFrom {
		head := f.JudgeHeader(endHeader(raw), m.Header, m.Size, m.At)
		m.judged(head.Verdict)
		v.keys = f.KeysOf(head)
	}
	if m.Gate != "" {
		v.rejected = &m
	}
	return v
}

// judged sets the verdict on a mail.
func (m *Message) judged(v trust.Verdict) {
	m.Gate, m.Reason, m.Ask, m.Doubtful = v.Gate, v.Reason, v.Ask, v.Doubtful
}

// withoutKey returns a mail with the verdict that its signing key does not exist.
func (j *Judge) withoutKey(m Message, key trust.KeyName) *Message {
	m.judged(j.Filter.WithoutKey(key))
	return &m
}

// noKeyExists reports whether none of the keys exists according to the DNS.
func (j *Judge) noKeyExists(ctx context.Context, keys []trust.KeyName) bool {
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	return allAbsent(keys, func(k trust.KeyName) bool { return j.Filter.KeyAbsent(ctx, k) })
}

// allAbsent reports whether there are keys, and each is absent.
func allAbsent(keys []trust.KeyName, absent func(trust.KeyName) bool) bool {
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k trust.KeyName) bool { return !absent(k) })
}

func (j *Judge) tooBig(size int64) bool { return j.Filter.MaxSize > 0 && size > j.Filter.MaxSize }

// body decides about a mail by its own bytes, of which there are size, and hands it to keep. Of a
// mail that is too big, raw need only have the header.
func (j *Judge) body(ctx context.Context, m *Message, raw io.Reader, size int64, keep Keep) (trust.BodyVerdict, error) {
	if j.tooBig(size) && m.Gate == "" {
		m.Gate, m.Reason = trust.GateSize, fmt.Sprintf("%d bytes, the limit is %d; the server reported %d", size, j.Filter.MaxSize, m.Size)
	}
	if j.tooBig(max(m.Size, size)) {
		raw = headerOnly(raw)
	}
	return j.prove(ctx, m, raw, keep)
}
