package state

import (
	"cmp"
	"slices"
	"time"
)

// Memories holds the conversations.
type Memories struct {
	Conversation                     // with the operator
	Others       []OtherConversation `json:"agents,omitempty"` // last used at the end
	Parked       []ParkedSession     `json:"parked,omitempty"` // sessions of backends that were not used last
}

func (m Memories) clone() Memories {
	m.Others, m.Parked = slices.Clone(m.Others), slices.Clone(m.Parked)
	return m
}

func (m *Memories) clampTimes(c clamp) {
	c.past(&m.Compacted.At)
	for i := range m.Others {
		c.past(&m.Others[i].Compacted.At)
	}
}

// Conversation is the context that the next turn of one principal continues from (docs/design.md,
// "Conversations").
type Conversation struct {
	Session   Session `json:"session,omitzero"`
	Compacted Summary `json:"compacted,omitzero"` // the last summary since the reset
}

// Talk names a conversation: everything said between the agent and one principal or, with
// Policy.ByThread, in one mail thread of the operator. The operator's Talk without a thread is
// everything they say outside of mail.
type Talk struct {
	With   Principal
	Thread string
}

// OperatorTalk is the operator's conversation outside of mail threads.
func OperatorTalk() Talk { return Talk{With: OperatorPrincipal} }

// TalkOf returns the conversation that a message belongs to.
func (p Policy) TalkOf(m Message) Talk {
	t := Talk{With: m.Principal()}
	if p.ByThread && m.Operator {
		t.Thread = m.ThreadID
	}
	return t
}

// TurnTalk returns the conversation of the active turn, or the zero Talk if no turn is active.
func (s State) TurnTalk(p Policy) Talk {
	msg, ok := s.TurnMessage()
	if !ok {
		return Talk{}
	}
	return p.TalkOf(msg)
}

// NewestTalk returns the operator's newest conversation by mail. If threads have no conversations
// of their own, it returns the operator's only conversation.
func (r Reading) NewestTalk(p Policy) Talk {
	t := OperatorTalk()
	if p.ByThread {
		t.Thread = r.Thread.ID
	}
	return t
}

// OtherConversation is the conversation with another agent, or in one mail thread of the
// operator.
type OtherConversation struct {
	With   Principal `json:"with"`
	Thread string    `json:"thread,omitempty"`
	Conversation
}

func (o OtherConversation) talk() Talk { return Talk{o.With, o.Thread} }

// Session is the agent's own session, which the next turn of its principal continues.
type Session struct {
	Runner string `json:"runner,omitempty"`
	ID     string `json:"id,omitempty"`

	// Context is how many tokens the session held when it was last used. Window is how many tokens
	// its model can hold. The agent reports both; 0 means unknown. FailedSummaries counts the
	// failed attempts to summarize the session.
	Context         int64 `json:"context,omitempty"`
	Window          int64 `json:"window,omitempty"`
	FailedSummaries int   `json:"vain,omitempty"`

	// Epoch is the last attempt that used the session.
	Epoch uint64 `json:"epoch,omitempty"`
}

// ParkedSession is the session of a conversation with a backend other than the one used last.
// Session.Runner names the backend.
type ParkedSession struct {
	With   Principal `json:"with"`
	Thread string    `json:"thread,omitempty"`
	Session
}

// maxParked is how many parked sessions are kept. The one parked first goes first.
const maxParked = 64

// SessionOf returns the session of a conversation with a backend. runner is the backend's name
// without "agent:".
func (m Memories) SessionOf(t Talk, runner string) Session {
	if current := m.ConversationOf(t).Session; current.Runner == runner {
		return current
	}
	i := m.parkedIndex(t, runner)
	if i < 0 {
		return Session{}
	}
	return m.Parked[i].Session
}

func (m Memories) parkedIndex(t Talk, runner string) int {
	return slices.IndexFunc(m.Parked, func(p ParkedSession) bool { return Talk{p.With, p.Thread} == t && p.Runner == runner })
}

// park keeps the current session of a conversation until its backend has a turn again. It removes
// the parked session of the backend that has a turn now.
func (m *Memories) park(t Talk, current, next Session) {
	if i := m.parkedIndex(t, next.Runner); i >= 0 {
		m.Parked = slices.Delete(m.Parked, i, i+1)
	}
	if current.ID == "" || current.Runner == next.Runner {
		return
	}
	m.Parked = append(m.Parked, ParkedSession{With: t.With, Thread: t.Thread, Session: current})
	if over := len(m.Parked) - maxParked; over > 0 {
		m.Parked = slices.Delete(m.Parked, 0, over)
	}
}

// MaxConversations is how many conversations with other agents are kept, and MaxThreads how many of
// the operator's mail threads. The least recently used one goes first: its next turn begins a
// session and sees the exchanges that its summary replaced.
const (
	MaxConversations = 32
	MaxThreads       = 100
)

// ConversationOf returns a conversation, or an empty one if it is not kept.
func (m Memories) ConversationOf(t Talk) Conversation {
	if t == OperatorTalk() {
		return m.Conversation
	}
	i := m.otherIndex(t)
	if i < 0 {
		return Conversation{}
	}
	return m.Others[i].Conversation
}

func (m Memories) otherIndex(t Talk) int {
	return slices.IndexFunc(m.Others, func(o OtherConversation) bool { return o.talk() == t })
}

// keepConversation replaces a conversation.
func (m *Memories) keepConversation(t Talk, c Conversation) {
	if t == OperatorTalk() {
		m.Conversation = c
		return
	}
	if i := m.otherIndex(t); i >= 0 {
		m.Others = slices.Delete(m.Others, i, i+1)
	}
	if t.With == "" || c == (Conversation{}) {
		return
	}
	m.Others = append(m.Others, OtherConversation{With: t.With, Thread: t.Thread, Conversation: c})
	most, kept := MaxConversations, 0
	if t.Thread != "" {
		most = MaxThreads
	}
	for i := len(m.Others) - 1; i >= 0; i-- {
		if (m.Others[i].Thread != "") != (t.Thread != "") {
			continue
		}
		if kept++; kept > most {
			m.Others = slices.Delete(m.Others, i, i+1)
		}
	}
}

// keepSession keeps the session that the next turn of a conversation continues. It drops a session
// that began before a reset or ends in IDLE, because the agent must forget it.
func (m *machine) keepSession(t Talk, s Session, epoch uint64) {
	if epoch <= m.Reset.Epoch || m.Phase == IDLE {
		s = Session{}
	}
	c := m.ConversationOf(t)
	if s.ID != "" && s.ID == c.Session.ID {
		s.FailedSummaries = c.Session.FailedSummaries
	}
	if s.ID != "" {
		if s != c.Session { // a failed attempt leaves the session as it was
			s.Epoch = epoch
		}
		m.park(t, c.Session, s)
	}
	c.Session = s
	m.keepConversation(t, c)
}

// endSessions ends every session. The history keeps their exchanges.
func (m *Memories) endSessions() {
	m.Session, m.Parked = Session{}, nil
	for i := range m.Others {
		m.Others[i].Session = Session{}
	}
	m.Others = slices.DeleteFunc(m.Others, func(o OtherConversation) bool { return o.Conversation == Conversation{} })
}

// endConversations ends every session, and drops every summary.
func (m *Memories) endConversations() {
	m.Conversation, m.Others, m.Parked = Conversation{}, nil, nil
}

// Summaries returns the files of all summaries.
func (m Memories) Summaries() []string {
	files := []string{m.Compacted.File}
	for _, o := range m.Others {
		files = append(files, o.Compacted.File)
	}
	return files
}

// Summary replaces the exchanges of one conversation since the last reset, up to an epoch. Its text
// is a payload. The history has every summary too.
type Summary struct {
	At      time.Time `json:"at,omitzero"`
	File    string    `json:"file,omitempty"`
	Through uint64    `json:"through,omitempty"` // the last epoch it covers
	Sum     string    `json:"sha256,omitempty"`  // of the file; "" in summaries of older versions
}

// Compacted reports that a summary (Text, kept durably in File) replaces all exchanges of one
// conversation in attempts up to Through, and the session with that id, if it has one. File is
// empty if the summary failed, for Reason.
type Compacted struct {
	Talk       Talk
	Session    string
	Through    uint64
	File, Text string
	Reason     string
}

// apply makes the next context of the conversation begin with the summary. It ignores a summary
// that comes too late, because the memory was reset or another session began while it was made.
func (e Compacted) apply(m *machine) {
	c := m.ConversationOf(e.Talk)
	if e.Session != c.Session.ID || e.Through <= m.Reset.Epoch || e.Through < c.Compacted.Through {
		m.line(Line{Kind: LineCompaction, With: e.Talk.With, Thread: e.Talk.Thread, What: WordStale, Reason: e.Reason})
		return
	}
	if e.File == "" {
		if c.Session.ID != "" {
			c.Session.FailedSummaries++
			m.keepConversation(e.Talk, c)
		}
		m.line(Line{Kind: LineCompaction, With: e.Talk.With, Thread: e.Talk.Thread, What: WordNoSummary, Reason: e.Reason})
		return
	}
	m.keepConversation(e.Talk, Conversation{Compacted: summaryOf(m.now, e.File, e.Text, e.Through)})
	m.line(Line{Kind: LineCompaction, With: e.Talk.With, Thread: e.Talk.Thread, What: WordMade, Epoch: e.Through, File: e.File, Text: e.Text, Reason: e.Reason})
}

// Redacted implements [Redactable].
func (e Compacted) Redacted(redact func(string) string) Event {
	e.Text, e.Reason = redact(e.Text), redact(e.Reason)
	return e
}

// summaryOf returns the summary whose file has this text and a newline.
func summaryOf(at time.Time, file, text string, through uint64) Summary {
	return Summary{At: at, File: file, Through: through, Sum: hashHex(text + "\n")}
}

func (m *Memories) applyCompactionLine(l Line) {
	if l.What != WordMade {
		return
	}
	who := cmp.Or(l.With, OperatorPrincipal) // older versions kept one summary of everything
	m.keepConversation(Talk{who, l.Thread}, Conversation{Compacted: summaryOf(l.At, l.File, l.Text, l.Epoch)})
}

// Reset is where the agent's memory begins. Messages up to Arrivals were queued before it, and
// attempts up to Epoch began before it. Origin is the handle of the agent or the user that reset
// the memory.
type Reset struct {
	At       time.Time `json:"at,omitzero"`
	Note     string    `json:"note,omitempty"`
	Origin   string    `json:"origin,omitempty"`
	Arrivals uint64    `json:"arrivals,omitempty"`
	Epoch    uint64    `json:"epoch,omitempty"`
}

// MemoryReset reports `reset`: the agent's memory of all principals begins again, with a note for
// the operator's next turn.
type MemoryReset struct{ Note, Origin string }

// apply clears the agent's memory. Queued messages stay queued, and their prompts
// say that they are from before the reset.
func (e MemoryReset) apply(m *machine) {
	m.Reset = Reset{At: m.now, Note: e.Note, Origin: e.Origin, Arrivals: m.Arrivals, Epoch: m.Epoch}
	m.endConversations()
	m.operatorHeard()
	m.forgetSleeps("the memory was reset")
	m.line(Line{Kind: LineReset, From: e.Origin, Reason: e.Note})
}

// Redacted implements [Redactable].
func (e MemoryReset) Redacted(redact func(string) string) Event {
	e.Note = redact(e.Note)
	return e
}
