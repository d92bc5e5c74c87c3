package memory

import (
	"slices"
	"strings"
)

// publish brings a message to all who listen to its subject: clients of its account,
// streams, and JetStream itself. It reports whether there was anybody.
func (e *Engine) publish(m message) bool {
	delivered := e.tell(m.subject, m)
	if s := e.storing(m.subject); s != nil {
		delivered = true
		if acknowledgement := s.publish(m, e.now(), e.replicas); acknowledgement != nil {
			e.answer(m, message{body: acknowledgement})
		}
		e.serve(s)
	}
	return e.request(m.subject, m) || delivered
}

// tell brings a message to the clients of its account that listen to a subject, and reports
// whether there was one.
func (e *Engine) tell(to string, m message) (delivered bool) {
	for _, c := range slices.Clone(e.clients) {
		if c.user != nil && c.user.isAgent() == m.agents {
			delivered = c.deliver(to, m) || delivered
		}
	}
	return delivered
}

// answer answers what was asked.
func (e *Engine) answer(asked, m message) {
	m.subject, m.reply = asked.reply, ""
	e.deliver(asked, m)
}

// deliver brings a message to where an answer is wanted; what a consumer delivers keeps the
// subject under which it was stored. An answer to an agent stays in the account of the
// agents, whatever subject it names. The administrator's goes wherever the request says,
// with the rights of the engine.
func (e *Engine) deliver(asked, m message) {
	m.agents = asked.agents
	switch {
	case asked.reply == "":
	case asked.agents:
		e.tell(asked.reply, m)
	case m.subject == asked.reply:
		e.publish(m)
	default:
		e.tell(asked.reply, m)
	}
}

// interested reports whether anybody hears an answer. What an agent asks goes through the
// border of its account, behind which the engine cannot see.
func (e *Engine) interested(asked message) bool {
	return asked.agents || e.storing(asked.reply) != nil || strings.HasPrefix(asked.reply, "$JS.") ||
		slices.ContainsFunc(e.clients, func(c *client) bool { return c.subscription(asked.reply) != nil })
}

// serve delivers what the pulls of a stream's consumers wait for.
func (e *Engine) serve(s *stream) {
	for _, c := range s.consumers {
		e.serveConsumer(c)
	}
}
