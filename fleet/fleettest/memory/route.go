package memory

import (
	"slices"
	"strings"
)

// publish brings a message to all who listen to its subject: clients, streams, and
// JetStream itself. It reports whether there was anybody.
func (e *Engine) publish(m message) bool { return e.deliver(m.subject, m) }

// answer publishes an answer of the engine, with its own rights: a request may name any
// subject as its reply.
func (e *Engine) answer(to string, m message) {
	if to == "" {
		return
	}
	m.subject, m.reply = to, ""
	e.publish(m)
}

// deliver brings a message to all who listen to a subject, which need not be its own: what
// a consumer delivers keeps the subject under which it was stored.
func (e *Engine) deliver(to string, m message) bool {
	delivered := false
	for _, c := range slices.Clone(e.clients) {
		delivered = c.deliver(to, m) || delivered
	}
	if s := e.storing(to); s != nil {
		delivered = true
		if acknowledgement := s.publish(m, e.now(), e.replicas); acknowledgement != nil {
			e.answer(m.reply, message{body: acknowledgement})
		}
		e.serve(s)
	}
	return e.request(to, m) || delivered
}

// interested reports whether anybody listens to a subject.
func (e *Engine) interested(subject string) bool {
	return e.storing(subject) != nil || strings.HasPrefix(subject, "$JS.") ||
		slices.ContainsFunc(e.clients, func(c *client) bool { return c.subscription(subject) != nil })
}

// serve delivers what the pulls of a stream's consumers wait for.
func (e *Engine) serve(s *stream) {
	for _, c := range s.consumers {
		e.serveConsumer(c)
	}
}
