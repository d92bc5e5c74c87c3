package cycle

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/cycle/view"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// Outcome is what a poll would do with a mail.
type Outcome string

// The outcomes of a mail.
const (
	AsMessage    Outcome = "message"     // it gets a turn
	AsControl    Outcome = "control"     // STOP, HALT, GO, STATUS, or a YES that comes too late
	AsAnswer     Outcome = "answer"      // it answers a question of a turn
	AsConsent    Outcome = "consent"     // it says YES to a challenge, whose mail gets a turn
	AsDuplicate  Outcome = "duplicate"   // the mail was taken before
	AsReport     Outcome = "report"      // it is a delivery report about a mail of ours
	AsQuarantine Outcome = "quarantined" // a gate rejects it
	AsCounted    Outcome = "counted"     // a gate rejects it, and the quarantine has no room for it
	AsIgnored    Outcome = "ignored"     // it is not for this agent
	AsUndecided  Outcome = "undecided"   // nobody can say now who wrote it
)

// Explanation tells what a poll would do with a mail, and why.
type Explanation struct {
	Outcome Outcome `json:"outcome"`

	Handle  string `json:"agent"`
	Address string `json:"address"` // of the agent

	// The mail, as it was read.
	At        time.Time `json:"at"` // of its arrival
	From      string    `json:"from"`
	Subject   string    `json:"subject"`
	MessageID string    `json:"message_id"`
	Size      int64     `json:"size"` // in bytes

	// Gate is the gate that rejects the mail, or "". Reason is the finding, Field the header field
	// that decided, and Read how that field was read.
	Gate   string `json:"gate"`
	Reason string `json:"reason"`
	Field  string `json:"field"`
	Read   string `json:"read"`

	// Addressee is the field that makes the mail one for this agent, or keeps it from being one.
	Addressee trust.Addressee `json:"addressee"`

	// Evidence is the evidence about the sender, as far as [trust] demands it.
	Require  string         `json:"require"`
	Evidence trust.Evidence `json:"evidence"`

	// Copy is the number of the message that the mail is a copy of, or the key of another item. ReadAt is
	// when the mailbox was last read to its end; nil if it never was.
	Copy   string     `json:"copy"`
	ReadAt *time.Time `json:"read_at"`

	Asks     bool   `json:"asks"`     // the operator would be asked whether they wrote it
	Control  string `json:"control"`  // the control that the mail consists of, or ""
	Question string `json:"question"` // id of the question, or of the challenge, that it answers, or ""
	Releases string `json:"releases"` // key of the item in quarantine that its YES releases, or ""
	Forged   bool   `json:"forged"`   // it is a report about a mail that only looks like ours
	Uncalled bool   `json:"uncalled"` // the operator wrote it to the agent's address, but called no agent

	// Thread is the conversation that the mail belongs to, unless it is ignored. NewThread reports
	// whether the mail begins it. Answers is the kind of our mail that the mail answers, or "".
	Thread    string `json:"thread"` // its id; "" if all mail is one conversation, or a new one has no id yet
	NewThread bool   `json:"new_thread"`
	Answers   string `json:"answers"`

	// Restored reports whether polls still compare the mailbox with a restored backup. A poll may then
	// hold the mail or set it aside, whatever the outcome.
	Restored bool `json:"restored"`

	// Waits is why the message would not get its turn at once, or "". Until is the end of that, as far as
	// it is known. Ahead is the number of messages before it.
	Waits string     `json:"waits"`
	Until *time.Time `json:"until"`
	Ahead int        `json:"ahead"`

	// What the agent would get.
	Text     string               `json:"text"`
	LeftOut  string               `json:"left_out"` // a note about the lines that it gets in full.txt alone
	Files    []files.ReceivedFile `json:"files"`
	Problems []string             `json:"problems"` // of the mail's structure
}

// Rejected reports whether a gate rejects the mail.
func (e Explanation) Rejected() bool { return e.Outcome == AsQuarantine || e.Outcome == AsCounted }

// FoundMail is a mail to explain.
type FoundMail struct {
	Key  string    // of the mail, as in the mailbox
	UID  uint32    // 0: unknown
	Raw  []byte    // with the line ends of the network; of a mail over the limit the header is enough
	Size int64     // of the whole mail, in bytes
	At   time.Time // of its arrival
}

// fileKey begins the key of a mail that comes from a file.
const fileKey = "mail:file."

// Explainer decides about mails as a poll does, by the same code. It writes no file, takes no lock
// and reaches no server but the DNS, and that only if [trust] verifies signatures here. It may
// be used by one goroutine.
type Explainer struct {
	State state.State // before the mail; the caller may change it

	// NothingKept is set if the quarantine counts as empty, whatever its folder holds.
	NothingKept bool

	accepter accepter
	judge    *mail.Judge
	items    func() ([]quarantine.Item, error) // in quarantine, which is read once
	taken    map[string]string                 // see copyOf; nil until it is needed
}

// ErrNoMail is the error for an agent that reads no mail.
var ErrNoMail = errors.New("this agent reads no mail: its configuration has no [mail]")

// Explainer returns an explainer for the state on disk. If offline is set, it does not ask the DNS.
// The error is a MovedError if the agent was moved to another machine.
func (a *Agent) Explainer(offline bool) (*Explainer, error) {
	s, err := a.Store.Read()
	if err != nil {
		return nil, err
	}
	x, err := a.ExplainerAt(s, a.Now, offline)
	if err != nil {
		return nil, err
	}
	return x, a.core().moved(s)
}

// ExplainerAt is Explainer for a given state and clock.
func (a *Agent) ExplainerAt(s state.State, now func() time.Time, offline bool) (*Explainer, error) {
	if a.Mail == nil {
		return nil, ErrNoMail
	}
	x := &Explainer{State: s, accepter: a.accepter(), items: sync.OnceValues(quarantine.Folder{Store: a.Store}.Items)}
	x.accepter.now, x.accepter.idKeys.now, x.accepter.idKeys.dry = now, now, true
	filter, err := x.accepter.idKeys.filter(a.Mail)
	if err != nil {
		return nil, err
	}
	filter.Offline = offline
	x.judge = a.Mail.Mailbox.NewJudge(filter)
	return x, nil
}

// ExplainMail explains one mail that arrived at that time.
func (a *Agent) ExplainMail(ctx context.Context, raw []byte, at time.Time) (Explanation, error) {
	x, err := a.Explainer(false)
	if err != nil {
		return Explanation{}, err
	}
	return x.Explain(ctx, FoundMail{Raw: raw, Size: int64(len(raw)), At: at})
}

// EvidenceOf returns what makes a stored mail one for the agent, and the evidence about its sender.
// It looks up no keys, and says nothing else.
func (a *Agent) EvidenceOf(raw []byte) (Explanation, error) {
	if a.Mail == nil {
		return Explanation{}, ErrNoMail
	}
	f, err := a.MailFilter()
	if err != nil {
		return Explanation{}, err
	}
	raw, err = message.CutHeader(bufio.NewReader(bytes.NewReader(raw)))
	h := message.ParseHeader(raw)
	return Explanation{
		Handle: a.Handle, Address: a.Mail.Address, Addressee: f.Addressee(h), Require: f.Require,
		Evidence: f.Evidence(raw, h.From, trust.BodyVerdict{}),
	}, err
}

// Admit decides about a mail as a poll does that begins with State, and returns the events that the
// poll would commit. They are about no other mail.
func (x *Explainer) Admit(ctx context.Context, m FoundMail) (mail.Judged, []state.Event, error) {
	ad := x.accepter.admission(new(noFiles), x.State)
	ad.quarantine.ReadBy(x.kept)
	judge := *x.judge
	judge.Room = ad.mayKeep
	judge.Now = func() time.Time { return m.At } // a mail that cannot be proved now is undecided
	var events []state.Event
	judged, err := judge.Mail(ctx, m.Key, m.Raw, m.Size, m.At, func(taken *mail.Message, raw io.Reader) error {
		taken.UID = m.UID
		event, err := ad.takeJudged(taken, raw)
		events = append(events, event)
		return err
	})
	switch {
	case err != nil:
		return judged, nil, err
	case judged.Beyond:
		events = append(events, rejection(&judged.Message, true, false))
	case judged.Report != nil:
		r := judged.Report
		events = append(events, state.Bounced{Key: r.Key, UID: m.UID, ID: r.Effect, To: r.To, Reason: r.Reason, Delayed: r.Delayed})
	}
	if judged.Uncalled {
		events = append(events, state.CalledNobody{Count: 1, At: m.At})
	}
	return judged, state.Redact(events, x.accepter.secrets.Redact), nil
}

// kept returns the items that count as those in quarantine.
func (x *Explainer) kept() ([]quarantine.Item, error) {
	if x.NothingKept {
		return nil, nil
	}
	return x.items()
}

// Explain explains one mail. State stays as it is.
func (x *Explainer) Explain(ctx context.Context, m FoundMail) (Explanation, error) {
	if m.Key == "" {
		m.Key = fileKey + message.NewThread(fmt.Sprint(m.At.UnixNano(), m.Size))
	}
	judged, events, err := x.Admit(ctx, m)
	e := Explanation{
		Outcome: AsIgnored, Handle: x.accepter.handle, Address: x.accepter.mail.Address,
		At: m.At.UTC(), From: strings.Join(judged.Message.Header.Froms, ", "), Subject: judged.Message.Header.Subject,
		MessageID: judged.Message.Header.MessageID, Size: m.Size,
		Addressee: judged.Addressee, Field: judged.Addressee.Field, Read: judged.Addressee.Read,
		Require: x.judge.Filter.Require, Evidence: judged.Evidence, Uncalled: judged.Uncalled, Forged: judged.Forged,
		Files: []files.ReceivedFile{}, Problems: []string{},
	}
	if read := x.State.Cursor.Complete; !read.IsZero() {
		e.ReadAt = &read
	}
	e.Restored = x.State.Cursor.Restored != nil
	if err != nil {
		return e, err
	}
	switch {
	case judged.Unproven != nil:
		e.Outcome, e.Reason = AsUndecided, judged.Unproven.Error()
	case judged.Addressee.Mine:
		x.outcome(&e, m, judged.Message, events)
	case judged.Report != nil:
		e.Outcome, e.Reason = AsReport, judged.Report.Reason
	}
	if e.Outcome == AsIgnored || e.Outcome == AsReport {
		return e, nil
	}
	x.content(&e, m.Raw, judged.Message)
	h := judged.Message.Header
	e.Thread, err = x.accepter.threadID(m.Key, h)
	if h.Continues() || !x.accepter.byThread {
		return e, err
	}
	e.NewThread = e.Outcome != AsDuplicate
	if h.MessageID == "" && strings.HasPrefix(m.Key, fileKey) {
		e.Thread = "" // it would depend on the made-up key
	}
	return e, err
}

// outcome steps the machine by the events of a mail, and reads the outcome from its lines.
func (x *Explainer) outcome(e *Explanation, m FoundMail, taken mail.Message, events []state.Event) {
	if taken.Gate != "" {
		e.Gate = taken.Gate
		e.Reason, _ = trust.Finding(taken.Gate, taken.Reason)
		e.Field, e.Read = decidingField(m.Raw, taken)
	}
	next := x.accepter.step(x.State, events, x.accepter.now())
	e.Outcome = AsDuplicate // of which the machine only marks the copy
	for _, l := range next.Lines {
		switch {
		case l.Kind == state.LineChallenge && l.What == state.WordAnswered:
			e.Question = l.ID
		case l.Kind == state.LineQuarantine && l.What == state.WordReleased:
			e.Outcome, e.Releases = AsConsent, l.Key
		case l.Key != m.Key:
		case l.Kind == state.LineGate && l.What == state.WordNotKept:
			e.Outcome = AsCounted
		case l.Kind == state.LineGate && l.What != state.WordCopy:
			e.Outcome, e.Asks = AsQuarantine, l.What == state.WordToAsk || l.What == state.WordDoubtful
		case l.Kind == state.LineControl:
			e.Outcome, e.Control = AsControl, string(l.What)
		case l.Kind == state.LineEdge && l.What == state.WordReport:
			e.Outcome, e.Question = AsAnswer, l.Request
		case l.Kind == state.LineMessage:
			e.Outcome = AsMessage
			x.waits(e, next, m.Key)
		}
	}
	if !e.Rejected() {
		e.Gate, e.Reason, e.Field, e.Read = "", "", e.Addressee.Field, e.Addressee.Read
	}
	if e.Outcome == AsDuplicate {
		e.Copy = x.copyOf(taken)
	}
}

// copyOf returns the number of the message that a mail is a copy of, or the key of another item. It
// is "" if the history does not have it any more.
func (x *Explainer) copyOf(m mail.Message) string {
	if x.taken == nil {
		x.taken = map[string]string{}
		for l, err := range x.accepter.store.History() {
			switch {
			case err != nil:
			case l.Kind == state.LineMessage && l.Message != nil:
				x.taken[l.Digest], x.taken[l.Key] = strconv.FormatUint(l.Message.Seq, 10), strconv.FormatUint(l.Message.Seq, 10)
			case l.Kind == state.LineControl || l.Kind == state.LineEdge:
				x.taken[l.Digest] = l.Key
			}
		}
		delete(x.taken, "")
	}
	return cmp.Or(x.taken[m.Digest], x.taken[m.OldDigest], x.taken[m.Key])
}

// waits sets why the message of a mail would wait in s.
func (x *Explainer) waits(e *Explanation, s state.State, key string) {
	row, _ := s.Message(key)
	for _, other := range s.Inbox {
		if other.Seq < row.Seq && other.Status != state.Deferred {
			e.Ahead++
		}
	}
	held, isHeld := s.HeldBack(row, *x.accepter.policy, x.accepter.now())
	if !isHeld {
		return
	}
	e.Waits = held.Why
	if !held.Until.IsZero() {
		e.Until = &held.Until
	}
}

// content sets what the agent would get of a mail.
func (x *Explainer) content(e *Explanation, raw []byte, taken mail.Message) {
	if taken.Gate == trust.GateSize {
		return // only the header is read
	}
	content := contentOf(x.accepter.store, raw)
	if taken.Nameless && len(content.Attachments) == 1 {
		content.Attachments[0].Title = ""
	}
	attached := files.AttachedToMail(content)
	e.Text, e.LeftOut, e.Files, e.Problems = content.Text, attached.LeftOut, attached.Files, attached.Problems
	if attached.Instead != "" {
		e.Text = attached.Instead
	}
	for _, id := range taken.Header.Answered() {
		if effect, ours := x.judge.Filter.OurEffect(id); ours {
			e.Answers, _, _ = strings.Cut(effect, ".")
			return
		}
	}
}

// decidingField returns the header field that a gate has rejected a mail by, and how it was read.
func decidingField(raw []byte, m mail.Message) (field, read string) {
	finding, evidence := trust.Finding(m.Gate, m.Reason)
	if m.Gate == trust.GateFrom {
		return "From", strings.Join(m.Header.Froms, ", ")
	}
	if name, value, ok := strings.Cut(finding, ": "); ok && m.Gate != trust.GateTrust && !strings.Contains(name, " ") {
		return textproto.CanonicalMIMEHeaderKey(name), value
	}
	return view.FieldOf(raw, evidence), evidence
}

// noFiles drops the payloads of an explanation.
type noFiles struct{ dryFiles }

func (*noFiles) KeepSummed(_ string, r io.Reader) (sum string, err error) {
	_, err = io.Copy(io.Discard, r)
	return "", err
}

func (n *noFiles) KeepAmong(name string, r io.Reader) error {
	_, err := n.KeepSummed(name, r)
	return err
}
