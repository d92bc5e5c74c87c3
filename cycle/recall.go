package cycle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"agentstateloop/cycle/prompt"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// DefaultRecall is how many bytes of past exchanges a prompt holds if Agent.Recall is 0.
const DefaultRecall = 32 << 10

// The limits of reading the past. The cost of a turn grows with the size of its prompt, never
// with the history (docs/design.md, "Promises" 8).
const (
	recallPart  = 4 << 10  // bytes of one message or answer in the prompt
	recallPer   = 128      // at most one exchange is read per this many bytes of room
	recallTimes = 4        // the exchanges read have at most this many times the room
	recallRead  = 16 << 10 // bytes of history read for each exchange, at most
	recallScan  = 64 << 20 // but at least this many bytes: they may hold the exchanges of others
)

// recaller rebuilds conversations from the history.
type recaller struct {
	core
	room int // bytes; 0: DefaultRecall
}

// bytes returns how many bytes of exchanges are recalled.
func (rc recaller) bytes() int { return cmp.Or(rc.room, DefaultRecall) }

// recalledText is the part of a prompt about the past.
type recalledText struct {
	summary   string                    // of the compacted exchanges
	exchanges []prompt.RecalledExchange // since then, oldest first
	missed    bool                      // the exchanges are those that the continued session does not know
}

// exchangeCache keeps the exchanges of each conversation that one recall has read, newest
// first, for the next recall of the same runner. So a backlog does not read them again for each
// message.
type exchangeCache map[state.Talk][]exchange

// exchange is one message with its answer, and the position of its task line in the history.
type exchange struct {
	serial uint64
	n      int
	epoch  uint64
	past   *prompt.PastExchange
}

// recall rebuilds a conversation since the last reset: the messages to the agent and its
// answers. The newest exchanges fill half of the room; those that share most words with the
// question fill the rest. A summary replaces the compacted exchanges.
func (rc recaller) recall(s state.State, talk state.Talk, p exchangeCache, question ...string) (recalledText, error) {
	room := rc.bytes()
	conversation := s.ConversationOf(talk)
	after := s.Reset.Epoch
	summary := rc.summaryText(conversation)
	if summary != "" {
		after = max(after, conversation.Compacted.Through)
	}
	if err := rc.readExchanges(talk, after, p, room); err != nil {
		return recalledText{}, fmt.Errorf("read history: %w", err)
	}
	var past []*prompt.PastExchange
	for _, e := range p[talk] {
		past = append(past, e.past)
	}
	return recalledText{summary: summary, exchanges: prompt.Recall(past, room, question...)}, nil
}

// recallFor is recall for a turn with these sessions. If other backends have had turns of the
// conversation since its session was used, it recalls only those turns.
func (rc recaller) recallFor(ss sessions, s state.State, talk state.Talk, p exchangeCache, question ...string) (recalledText, error) {
	after := ss.missed(s, talk)
	if after == 0 {
		return rc.recall(s, talk, p, question...)
	}
	s.Reset.Epoch = max(s.Reset.Epoch, after)
	r, err := rc.recall(s, talk, exchangeCache{}, question...)
	r.summary, r.missed = "", true
	return r, err
}

// readExchanges updates p for one conversation: it reads the history back to the exchanges in
// p, and drops those that are too old. It does not read attempts up to the epoch after.
func (rc recaller) readExchanges(talk state.Talk, after uint64, p exchangeCache, room int) error {
	most := max(1, room/recallPer)
	known := p[talk]
	p[talk] = make([]exchange, 0, len(known)+1)
	read := 0
	add := func(e exchange) (more bool) {
		p[talk] = append(p[talk], e)
		read += e.past.Len()
		return len(p[talk]) < most && read < recallTimes*room
	}
	for l, err := range rc.store.Newest(max(int64(most)*recallRead, recallScan), state.LineTask, state.LineReset) {
		switch {
		case err != nil:
			return err
		case l.Kind == state.LineReset || l.Epoch <= after:
			return nil
		case len(known) > 0 && known[0].serial == l.Serial && known[0].n == l.N:
			for _, e := range known {
				if e.epoch <= after || !add(e) {
					break
				}
			}
			return nil
		case !rc.inConversation(talk, l):
			continue
		}
		past := prompt.NewPastExchange(rc.exchange(l, min(recallPart, room/8)))
		if !add(exchange{serial: l.Serial, n: l.N, epoch: l.Epoch, past: past}) {
			return nil
		}
	}
	return nil
}

// sinceReset reports whether a history line is a turn that the agent may see. A turn that began
// before the last reset answered from the old memory.
func sinceReset(s state.State, l state.Line) bool {
	return l.Kind == state.LineTask && l.Row != nil && l.Epoch > s.Reset.Epoch
}

// inConversation reports whether the turn of a task line belongs to this conversation.
func (rc recaller) inConversation(talk state.Talk, task state.Line) bool {
	return rc.isAnswerTo(talk.With, task) && rc.policy.TalkOf(*task.Row).Thread == talk.Thread
}

// isAnswerTo reports whether the turn of a task line answered this principal.
func (rc recaller) isAnswerTo(who state.Principal, task state.Line) bool {
	if task.Row == nil {
		return false
	}
	msg := *task.Row
	if msg.Source == state.Mesh && msg.Proof == "" && strings.HasSuffix(string(who), ":"+msg.From) {
		msg.Proof = rc.olderProof(msg)
	}
	return msg.Principal() == who
}

// olderProof returns the proof of the sender for a row without one. Older versions did not
// record the proof there, but kept the whole message.
func (rc recaller) olderProof(msg state.Message) state.Proof {
	m, err := readMessage(rc.store, state.Head{}, msg)
	if err != nil {
		return ""
	}
	return proofOf(m.sent)
}

// exchange returns one message with its answer, each truncated to most bytes. A note replaces a
// pruned payload.
func (rc recaller) exchange(task state.Line, most int) prompt.Exchange {
	msg := *task.Row
	asked := "(no longer stored)"
	m, err := readMessage(rc.store, state.Head{}, msg)
	switch {
	case err == nil:
		m.collect(rc.store, task.Collected)
		asked = m.allText()
	case !errors.Is(err, fs.ErrNotExist):
		asked = "(its file is damaged)"
	}
	answered := "(no longer stored)"
	if back, err := readDeliverableBody(rc.store, task.OutputBox, task.Deliverable, task.Fields); err == nil {
		answered = back.whole()
	}
	return prompt.Exchange{
		Message: prompt.ExchangeText{
			Head: fmt.Sprintf("[%s] %s (%s)", msg.Observed.UTC().Format("2006-01-02 15:04"), plain.Line(msg.From), senderRelation(msg)),
			Text: truncate(asked, most),
		},
		Answer: prompt.ExchangeText{
			Head: fmt.Sprintf("[%s] you (%s)", task.At.UTC().Format("2006-01-02 15:04"), task.Outcome),
			Text: truncate(answered, most),
		},
	}
}

// summaryText returns the summary of a conversation's compacted exchanges, or "" without a
// readable one.
func (rc recaller) summaryText(c state.Conversation) string {
	if c.Compacted.File == "" {
		return ""
	}
	data, err := rc.store.ReadSummed(c.Compacted.File, c.Compacted.Sum)
	if err != nil {
		rc.logf("compact: cannot read the summary, using the exchanges instead: %v", err)
	}
	return strings.TrimSpace(string(data))
}

// ErrReset means that the memory was reset while this turn ran.
var ErrReset = errors.New("the memory was reset while this turn ran, so nothing was saved; the next turn can save")

// Remember replaces the working memory of the calling turn's principal: the operator, or the
// agent that caused the turn. The new text is durable when Remember returns. The old text is
// kept in a file, and the history keeps every text. An empty text empties the memory.
func (a *Agent) Remember(ctx context.Context, in Inside, text string) error {
	text = a.Secrets.Redact(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")))
	if len(text) > store.MaxMemory {
		return fmt.Errorf("the memory would have %d bytes, and the limit is %d: shorten it, and put the rest into a file",
			len(text), store.MaxMemory)
	}
	s, err := a.journal().commitWith(ctx, func(next state.State) error {
		if !memoryChanged(next) {
			return nil
		}
		return a.Store.KeepMemory(next.TurnPrincipal(), text)
	}, state.Remembered{TurnID: in.TurnID, Epoch: in.Epoch, Text: text})
	if err != nil {
		return fmt.Errorf("remember: %w", err)
	}
	if err := in.check(s); err != nil {
		return err
	}
	if !memoryChanged(s) {
		return ErrReset
	}
	return nil
}

// memoryChanged reports whether the step that led to s changed the memory.
func memoryChanged(s state.State) bool {
	return slices.ContainsFunc(s.Lines, func(l state.Line) bool { return l.Kind == state.LineMemory })
}

// wordsRead limits the size of a payload that is read whole for its first words, in bytes.
const wordsRead = 256 << 10

// FirstWords returns the beginning of a message's text, on one line and without the secrets
// that this process knows. For a mail without text it returns the subject. ok is false if the
// payload is missing or damaged.
func (a *Agent) FirstWords(m state.Message) (words string, ok bool) {
	if m.Title != "" {
		return view.Beginning(a.Secrets.Redact(m.Title)), true
	}
	raw, err := beginningOf(a.Store, m.Payload, m.Sum)
	if err != nil {
		return "", false
	}
	return view.Beginning(a.Secrets.Redact(textOf(m.Source, raw))), true
}

// beginningOf returns a payload, or the beginning of one with more than wordsRead bytes.
func beginningOf(st *store.Store, payload, sum string) ([]byte, error) {
	if payload == "" {
		return nil, fs.ErrNotExist
	}
	heads := view.Headliner{Store: st}
	length, err := heads.Length(payload)
	if err != nil {
		return nil, err
	}
	if length > wordsRead {
		return heads.Head(payload)
	}
	return st.ReadSummed(payload, sum)
}

// TextOfQuarantined returns the text of an item in quarantine, without the secrets that this process
// knows: all of it, or the beginning of a long one. It returns a note in parentheses if the text cannot
// be read.
func (a *Agent) TextOfQuarantined(item quarantine.Item) string {
	raw, err := beginningOf(a.Store, item.Payload, item.Sum)
	if err != nil {
		return "(not shown: " + err.Error() + ")"
	}
	if item.Source == state.Mail {
		return a.Secrets.Redact(message.ReadContent(bytes.NewReader(raw), message.Sent{}).Full)
	}
	return a.Secrets.Redact(textOf(item.Source, raw))
}

// textOf returns the text of a payload. raw may be only the beginning of the payload.
func textOf(source state.Source, raw []byte) string {
	switch source {
	case state.Mail:
		if text := message.ReadContent(bytes.NewReader(raw), message.Sent{}).Text; plain.Line(text) != "" {
			return text
		}
		return message.ParseHeader(raw).Subject
	case state.Mesh:
		var m mesh.Message
		if json.Unmarshal(raw, &m) != nil {
			return ""
		}
		return m.Text
	}
	return string(plain.TrimPartial(raw))
}
