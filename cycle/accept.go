package cycle

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// payloads stores the payloads of an observation: in the agent's store, or in memory for a dry
// run. The method names are those of store.Store.
type payloads interface {
	KeepSummed(name string, r io.Reader) (sum string, err error)
	KeepAmong(name string, r io.Reader) error
	KeepAgain(name, want string, r io.Reader) (sum string, err error)
	Remove(name string) error
	SetAside(n store.NudgeFile) error
}

// admission accepts or rejects the items of one observation.
type admission struct {
	accepter
	files      payloads
	state      state.State // at the start of the observation
	now        func() time.Time
	folder     quarantine.Folder
	quarantine *quarantine.Intake
	answered   map[string]bool // ids of the challenges and questions answered so far; used by mail alone
	restored   *restoredMail   // nil: the mailbox is not a restored one
}

// takeMail keeps a mail and returns its event. An accepted mail goes to messages/, a rejected
// one to quarantine.
func (ad *admission) takeMail(m *mail.Message, raw io.Reader) (state.Event, error) {
	if ad.restored != nil {
		return ad.takeRestored(m, raw)
	}
	return ad.takeJudged(m, raw)
}

// takeJudged is takeMail without regard to a restore.
func (ad *admission) takeJudged(m *mail.Message, raw io.Reader) (state.Event, error) {
	if m.Gate == "" || m.Ask || m.Doubtful {
		return ad.accept(m, raw)
	}
	return ad.reject(m, false, raw)
}

// peekLength is how many bytes of a mail are searched for a control and for the answer to a
// challenge.
const peekLength = 256 << 10

// peek returns the beginning of a mail, and a reader of the whole mail.
func peek(raw io.Reader) (head []byte, whole io.Reader, err error) {
	head, err = io.ReadAll(io.LimitReader(raw, peekLength))
	return head, io.MultiReader(bytes.NewReader(head), raw), err
}

// controlOf returns the control that a mail of this length and text consists of, or "". A mail
// of peekLength bytes or more is never a control, because its text may go on.
func controlOf(length int, text string) string {
	if length >= peekLength {
		return ""
	}
	return message.Control(text)
}

// accept keeps a mail that passed the gate, and returns its event. A mail that lacks only a
// proof of its sender is accepted if it answers an open challenge or an open question, and
// otherwise rejected. A doubtful mail, which is signed but has two readings, is rejected unless
// it says YES to a challenge.
func (ad *admission) accept(m *mail.Message, raw io.Reader) (state.Event, error) {
	head, whole, err := peek(raw)
	if err != nil {
		return nil, err
	}
	content := message.ContentOf(head, ad.quotableTexts(m.Header))
	if m.Gate == "" && content.Automatic != "" {
		m.Gate, m.Reason = trust.GateAuto, content.Automatic
		return ad.reject(m, false, whole)
	}
	control := controlOf(len(head), content.Text)
	if token := trust.Consent(content.Text); token != "" && (m.Gate == "" || m.Doubtful || ad.mail.Filter.Challenges()) {
		return ad.consent(m, token, whole)
	}
	if m.Doubtful {
		return ad.reject(m, false, whole)
	}
	question, err := ad.question(m.Header)
	if err != nil {
		return nil, err
	}
	if m.Gate == "" {
		arrived, err := ad.keepMail(ad.files, *m, control, whole)
		return asReply(arrived, question), err
	}
	if event, err := ad.takeProvenByQuestion(m, question, control, whole); event != nil || err != nil {
		return event, err
	}
	tokens := trust.Tokens(m.Header, ad.handle, ad.mail.Address, content.Full)
	answered, open := ad.openChallenge(tokens...)
	if !open {
		return ad.reject(m, m.Ask, whole)
	}
	arrived, err := ad.keepMail(ad.files, *m, control, whole)
	return state.Vouched{Key: m.Key, Hash: answered.Hash, UID: m.UID, At: m.At, Then: arrived, Else: rejection(m, true, false)}, err
}

// hasRoom reports whether to fetch a mail that its header rejects: the quarantine has room for
// it, or it may answer a challenge or a question.
func (ad *admission) hasRoom(m *mail.Message) (bool, error) {
	if m.Ask && (ad.state.AwaitsAnswer(ad.now()) || ad.state.AwaitsOperator(ad.now())) {
		return true, nil
	}
	return ad.quarantine.Room(verdictOn(m), m.Digest, keptSize(m))
}

// mayKeep is hasRoom, but returns true if hasRoom fails. The mail is then fetched, and keeping
// it fails with the reason.
func (ad *admission) mayKeep(m *mail.Message) bool {
	room, err := ad.hasRoom(m)
	return room || err != nil
}

// reject keeps a mail in quarantine and returns its event. ask is set if the operator is to be
// asked about the mail.
func (ad *admission) reject(m *mail.Message, ask bool, raw io.Reader) (state.Event, error) {
	unkept, err := ad.quarantine.Keep(verdictOn(m), m.Digest, keptSize(m), raw)
	return rejection(m, unkept, ask), err
}

func verdictOn(m *mail.Message) quarantine.Verdict {
	return quarantine.Verdict{
		Key: m.Key, Source: state.Mail, From: m.Header.From, Subject: m.Header.Subject,
		Gate: m.Gate, Reason: m.Reason, At: m.At, Doubtful: m.Doubtful, Digest: digestOfDoubt(m),
	}
}

// digestOfDoubt returns the digest of a doubtful mail, or "". The quarantine keeps it, so that
// it is known when the mail is released.
func digestOfDoubt(m *mail.Message) string {
	if !m.Doubtful {
		return ""
	}
	return m.Digest
}

// keptSize returns how many bytes of a mail the quarantine keeps.
func keptSize(m *mail.Message) int64 {
	if m.Gate == trust.GateSize {
		return 0 // only its header
	}
	return m.Size
}

func rejection(m *mail.Message, unkept, ask bool) state.Rejected {
	return state.Rejected{
		Key: m.Key, Source: state.Mail, From: m.Header.From,
		Gate: m.Gate, Reason: m.Reason, At: m.At, Digest: m.Digest, Unkept: unkept, Ask: ask, Doubtful: m.Doubtful,
	}
}

// keepMail keeps an accepted mail and returns its event. control is the control that the mail
// consists of, or "".
func (ac accepter) keepMail(files payloads, m mail.Message, control string, whole io.Reader) (state.Event, error) {
	thread, err := ac.threadID(m.Key, m.Header)
	if err != nil {
		return nil, err
	}
	sum, err := files.KeepSummed(mailPayload(m.Key), whole)
	return mailArrived(m, thread, control, sum), err
}

// mailArrived returns the event of an accepted mail. thread is the id of its conversation, and
// sum the checksum of its payload.
func mailArrived(m mail.Message, thread, control, sum string) state.Event {
	arrived := state.Arrived{
		Message: state.Message{
			Key: m.Key, Source: state.Mail, From: m.Header.From, Operator: true,
			At: m.At, Payload: mailPayload(m.Key), Sum: sum, Size: int(m.Size), Nameless: m.Nameless,
		},
		Digest:    m.Digest,
		OldDigest: m.OldDigest,
		UID:       m.UID,
		Thread:    mailThread(m.Header, thread),
	}
	if control != "" {
		return state.Controlled{Arrived: arrived, Control: control}
	}
	return arrived
}

// mailThread returns the conversation of a mail, for its answer to continue.
func mailThread(h message.Header, id string) state.Thread {
	return state.Thread{Subject: h.Subject, MessageID: h.MessageID, References: h.References, ID: id}
}

// threadID returns the id of the conversation of the mail under key. It is "" unless each mail
// thread is a conversation of its own.
func (ac accepter) threadID(key string, h message.Header) (string, error) {
	if !ac.byThread {
		return "", nil
	}
	idKey, err := ac.idKeys.key()
	ids := message.IDs{Handle: ac.handle, Address: ac.mail.Address, IDKey: idKey}
	return cmp.Or(ids.ThreadOf(h), message.NewThread(key)), err
}

func mailPayload(key string) string { return store.PayloadName(store.MessagesDir, key, ".eml") }

// quotableTexts returns our texts that a mail with this header may quote. They include the
// challenge that the mail answers, because a sent challenge is not kept.
func (ad *admission) quotableTexts(h message.Header) message.Sent {
	sent := sentTexts(ad.store, h)
	for _, token := range trust.Tokens(h, ad.handle, ad.mail.Address, "") {
		c, open := ad.state.ChallengeOf(token, ad.now())
		if !open {
			continue
		}
		if item, raw, err := ad.folder.Open(c.Key); err == nil {
			sent.Texts = append(sent.Texts, challengeText(ad.handle, item, raw, token))
			sent.Names = append(sent.Names, ad.mail.Address)
		}
	}
	return sent
}

// accepter turns incoming items into events.
type accepter struct {
	core
	operator string // the operator's first address
	mail     *Mail  // nil: no mail is configured
	mesh     *Mesh  // nil: no mesh is configured
	idKeys   idKeys
	byThread bool // each mail thread is a conversation of its own
}

// isKnown reports whether from is an operator or a listed peer.
func (ac accepter) isKnown(source state.Source, from string) bool {
	if source == state.Mesh {
		return ac.mesh != nil && ac.mesh.lists(from)
	}
	return ac.mail != nil && ac.mail.Filter.Operator(from)
}

// release keeps the payload of a quarantined item as that of a message, and returns the event
// of the message.
func (ac accepter) release(files payloads, s state.State, i quarantine.Item, raw []byte) (state.Event, error) {
	if i.Gate == trust.GateSize {
		return nil, fmt.Errorf("%s was too large, so only its header was kept: %s", i.Key, i.Reason)
	}
	if i.Source == state.Mesh {
		return ac.releaseMesh(files, s, i, raw)
	}
	if i.Source == state.EventSource {
		if fault := store.EventFault(raw); fault != "" {
			return nil, fmt.Errorf("%s cannot be released: %s", i.Key, fault)
		}
		arrived, err := eventArrived(files, i.Key, EventMessage{From: i.From, Text: string(raw)})
		arrived.Message.At = i.At
		return arrived, err
	}
	if ac.mail == nil {
		return nil, fmt.Errorf("%s is a mail, but no mail is configured any more", i.Key)
	}
	control := controlOf(len(raw), contentOf(ac.store, raw[:min(len(raw), peekLength)]).Text)
	// The answer must not go to a stranger in From.
	from := ac.operator
	if ac.mail.Filter.Operator(i.From) {
		from = i.From
	}
	m := mail.Message{Key: i.Key, At: i.At, Header: message.ParseHeader(raw), Digest: i.Digest}
	m.Header.From = from
	event, err := ac.keepMail(files, m, control, bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", i.Key, err)
	}
	question, err := ac.question(m.Header)
	return asReply(event, question), err
}

func (ac accepter) releaseMesh(files payloads, s state.State, i quarantine.Item, raw []byte) (state.Event, error) {
	m, err := mesh.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be released: it is not a mesh message: %w", i.Key, err)
	}
	if why := m.Malformed(); why != "" {
		return nil, fmt.Errorf("%s cannot be released: %s", i.Key, why)
	}
	return ac.meshArrived(files, s, m, raw)
}

// Order moves the machine to a phase, as `transition` does. It also makes the agent manage its
// crontab line again after an `uninstall`.
func (a *Agent) Order(ctx context.Context, to state.Phase, reason string, noMail bool) (state.State, error) {
	return a.journal().commit(ctx,
		state.Unscheduled{Removed: false},
		state.Ordered{To: to, Reason: reason, NoMail: noMail},
	)
}

// Halt sets HALT for this agent alone.
func (a *Agent) Halt(ctx context.Context, reason string) (state.State, error) {
	return a.journal().commit(ctx, state.Switched{On: true, Reason: reason})
}

// Resume lifts the HALT that Halt has set. A HALT that was set on the mesh must be lifted
// there.
func (a *Agent) Resume(ctx context.Context, reason string) (state.State, error) {
	return a.journal().commit(ctx, state.Switched{On: false, Reason: reason})
}

// Stop marks the active turn as stopped. Its runner ends the agent and delivers the partial
// result, marked canceled. Stop returns ErrNothing if no turn is active.
func (a *Agent) Stop(ctx context.Context, reason string) error { return a.StopTurn(ctx, "", reason) }

// ErrOtherTurn means that a turn was to be stopped after its end.
var ErrOtherTurn = errors.New("that turn has ended; another one runs now")

// StopTurn is Stop, and returns ErrOtherTurn if another turn is active. "" is any turn.
func (a *Agent) StopTurn(ctx context.Context, turnID, reason string) error {
	s, err := a.journal().commitWith(ctx, func(next state.State) error {
		if turnID != "" && next.Turn.Stoppable() && next.Turn.TurnID != turnID {
			return ErrOtherTurn
		}
		return nil
	}, state.Stopped{Reason: reason})
	if err != nil {
		return err
	}
	if !s.Turn.Stoppable() {
		return ErrNothing
	}
	if s, err = a.watchdog().watch(ctx, s); err != nil {
		return err
	}
	return a.flusher().sendNow(ctx, s)
}

// Reset makes the agent begin again without its memory, and gives its next context a note. Its
// working memory is set aside, because it was learned before the reset.
func (a *Agent) Reset(ctx context.Context, note, origin string) error {
	_, err := a.journal().commitWith(ctx, func(state.State) error { return a.Store.SetMemoryAside() },
		state.MemoryReset{Note: note, Origin: origin})
	return err
}
