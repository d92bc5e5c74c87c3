package state

import "slices"

// Conversation is what the next turn of one principal continues from
// (docs/design.md, "Conversations").
type Conversation struct {
	Session   Session `json:"session,omitzero"`
	Compacted Summary `json:"compacted,omitzero"` // the last one since the reset
}

// AgentConversation is the conversation with another agent.
type AgentConversation struct {
	With Principal `json:"with"`
	Conversation
}

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
}

// MaxConversations is how many conversations with other agents are kept. The one
// that was used least recently goes first: its next turn begins a session, and is
// shown the exchanges that a summary stood for.
const MaxConversations = 32

// ConversationWith returns the conversation with a principal. It is empty if none is
// kept.
func (s State) ConversationWith(who Principal) Conversation {
	if who == OperatorPrincipal {
		return s.Conversation
	}
	i := s.agentIndex(who)
	if i < 0 {
		return Conversation{}
	}
	return s.Agents[i].Conversation
}

func (s State) agentIndex(who Principal) int {
	return slices.IndexFunc(s.Agents, func(a AgentConversation) bool { return a.With == who })
}

// keepConversation replaces the conversation with a principal.
func (m *machine) keepConversation(who Principal, c Conversation) {
	if who == OperatorPrincipal {
		m.Conversation = c
		return
	}
	if i := m.agentIndex(who); i >= 0 {
		m.Agents = slices.Delete(m.Agents, i, i+1)
	}
	if who == "" || c == (Conversation{}) {
		return
	}
	m.Agents = append(m.Agents, AgentConversation{With: who, Conversation: c})
	m.Agents = slices.Delete(m.Agents, 0, max(0, len(m.Agents)-MaxConversations))
}

// keepSession keeps the session that the next turn of a principal continues. One
// that began before a reset, or that ends in IDLE, holds what is to be forgotten.
func (m *machine) keepSession(who Principal, s Session, epoch uint64) {
	if epoch <= m.Reset.Epoch || m.Phase == IDLE {
		s = Session{}
	}
	c := m.ConversationWith(who)
	if s.ID != "" && s.ID == c.Session.ID {
		s.FailedSummaries = c.Session.FailedSummaries
	}
	c.Session = s
	m.keepConversation(who, c)
}

// endSessions ends every session. The history keeps what was said in them.
func (m *machine) endSessions() {
	m.Session = Session{}
	for i := range m.Agents {
		m.Agents[i].Session = Session{}
	}
	m.Agents = slices.DeleteFunc(m.Agents, func(a AgentConversation) bool { return a.Conversation == Conversation{} })
}

// endConversations ends every session, and drops every summary.
func (m *machine) endConversations() {
	m.Conversation, m.Agents = Conversation{}, nil
}

// Summaries returns the files of all summaries.
func (s State) Summaries() []string {
	files := []string{s.Compacted.File}
	for _, a := range s.Agents {
		files = append(files, a.Compacted.File)
	}
	return files
}
