package state

import "slices"

// Conversation is what the next turn of one principal continues from
// (docs/design.md, "Conversations").
type Conversation struct {
	Session   Session `json:"session,omitzero"`
	Compacted Summary `json:"compacted,omitzero"` // the last one since the reset
}

// Talk names a conversation: all that is said between the agent and one principal or, with
// Policy.ByThread, in one mail thread of the operator. The operator's Talk without a thread
// is what they say outside of mail.
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

// TurnTalk returns the conversation of the active turn, or none if no turn is active.
func (s State) TurnTalk(p Policy) Talk {
	msg, ok := s.TurnMessage()
	if !ok {
		return Talk{}
	}
	return p.TalkOf(msg)
}

// NewestTalk returns the operator's newest conversation by mail, or all that they say if
// threads have no conversations of their own.
func (s State) NewestTalk(p Policy) Talk {
	t := OperatorTalk()
	if p.ByThread {
		t.Thread = s.Thread.ID
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

// Session is the agent's own session, which the next turn of its principal
// continues.
type Session struct {
	Runner string `json:"runner,omitempty"`
	ID     string `json:"id,omitempty"`

	// Context is how many tokens it held when it was last used, and Window how
	// many its model can hold, both as the agent reports them; 0 means unknown.
	// FailedSummaries counts the attempts to summarize it that failed.
	Context         int64 `json:"context,omitempty"`
	Window          int64 `json:"window,omitempty"`
	FailedSummaries int   `json:"vain,omitempty"`

	// Epoch is the last attempt that used it.
	Epoch uint64 `json:"epoch,omitempty"`
}

// ParkedSession is the session of a conversation with a backend that is not the one used last.
// Runner is what the session has.
type ParkedSession struct {
	With   Principal `json:"with"`
	Thread string    `json:"thread,omitempty"`
	Session
}

// maxParked is how many such sessions are kept. The one that was parked first goes first.
const maxParked = 64

// SessionOf returns the session of a conversation with a backend, whose name without "agent:"
// is runner.
func (s State) SessionOf(t Talk, runner string) Session {
	if current := s.ConversationOf(t).Session; current.Runner == runner {
		return current
	}
	i := s.parkedIndex(t, runner)
	if i < 0 {
		return Session{}
	}
	return s.Parked[i].Session
}

func (s State) parkedIndex(t Talk, runner string) int {
	return slices.IndexFunc(s.Parked, func(p ParkedSession) bool { return Talk{p.With, p.Thread} == t && p.Runner == runner })
}

// park keeps the current session of a conversation for when its backend has a turn again, and
// takes out the one of the backend that has one now.
func (m *machine) park(t Talk, current, next Session) {
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

// MaxConversations is how many conversations with other agents are kept, and MaxThreads how
// many of the operator's mail threads. The one
// that was used least recently goes first: its next turn begins a session, and is
// shown the exchanges that a summary stood for.
const (
	MaxConversations = 32
	MaxThreads       = 100
)

// ConversationOf returns a conversation. It is empty if none is kept.
func (s State) ConversationOf(t Talk) Conversation {
	if t == OperatorTalk() {
		return s.Conversation
	}
	i := s.otherIndex(t)
	if i < 0 {
		return Conversation{}
	}
	return s.Others[i].Conversation
}

func (s State) otherIndex(t Talk) int {
	return slices.IndexFunc(s.Others, func(o OtherConversation) bool { return o.talk() == t })
}

// keepConversation replaces a conversation.
func (m *machine) keepConversation(t Talk, c Conversation) {
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

// keepSession keeps the session that the next turn of a conversation continues. One
// that began before a reset, or that ends in IDLE, holds what is to be forgotten.
func (m *machine) keepSession(t Talk, s Session, epoch uint64) {
	if epoch <= m.Reset.Epoch || m.Phase == IDLE {
		s = Session{}
	}
	c := m.ConversationOf(t)
	if s.ID != "" && s.ID == c.Session.ID {
		s.FailedSummaries = c.Session.FailedSummaries
	}
	if s.ID != "" {
		if s != c.Session { // an attempt that failed keeps the one that there was
			s.Epoch = epoch
		}
		m.park(t, c.Session, s)
	}
	c.Session = s
	m.keepConversation(t, c)
}

// endSessions ends every session. The history keeps what was said in them.
func (m *machine) endSessions() {
	m.Session, m.Parked = Session{}, nil
	for i := range m.Others {
		m.Others[i].Session = Session{}
	}
	m.Others = slices.DeleteFunc(m.Others, func(o OtherConversation) bool { return o.Conversation == Conversation{} })
}

// endConversations ends every session, and drops every summary.
func (m *machine) endConversations() {
	m.Conversation, m.Others, m.Parked = Conversation{}, nil, nil
}

// Summaries returns the files of all summaries.
func (s State) Summaries() []string {
	files := []string{s.Compacted.File}
	for _, o := range s.Others {
		files = append(files, o.Compacted.File)
	}
	return files
}
