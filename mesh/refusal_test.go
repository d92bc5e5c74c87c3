package mesh

import (
	"strings"
	"testing"
)

// TestRefusalsNameTheLimit checks that each refusal of a message, a nudge and a file names the recipient or
// the sender, the limit that was met, and what the sender can do.
func TestRefusalsNameTheLimit(t *testing.T) {
	text := Message{To: "goulard", Text: "hello"}
	for name, test := range map[string]struct {
		tokens Options
		fill   func(s *Server)
		m      Message
		want   string
	}{
		"mailbox": {Options{Tokens: twoTokens()}, func(s *Server) {
			s.ledger.mailboxes["goulard"] = make([]storedMessage, maxPerMailbox)
		}, text, "answered 503: the mailbox of goulard is full: it holds 1000 messages, and the limit is 1000; try again after goulard has read them"},
		"mailbox, unproven": {Options{Open: true}, func(s *Server) {
			s.ledger.mailboxes["goulard"] = make([]storedMessage, maxPerMailbox)
		}, text, "answered 503: the mailbox of goulard is full: it holds 1000 messages, and the limit for senders without a token is 500; try again after"},
		"all messages": {Options{Tokens: twoTokens()}, func(s *Server) { s.ledger.count = maxHeld }, text,
			"answered 503: the mesh is full: it holds 100000 messages for all agents, and the limit is 100000; try again after they have read"},
		"all bytes": {Options{Tokens: twoTokens()}, func(s *Server) { s.ledger.bytes = maxBytes }, text,
			"answered 503: the mesh is full: it holds 256 MiB of text for all agents, and the limit is 256 MiB; try again after they have read"},
		"rate": {Options{Tokens: twoTokens(), Now: newTestClock().now}, func(s *Server) {
			for range callsPerMinute {
				s.rateLimit.take(rateKey{callMessage, "dorlange", true}, s.clock())
			}
		}, text, "answered 429: more than 5 messages of dorlange within a minute: try again in 60 seconds"},
		"size": {Options{Tokens: twoTokens()}, func(*Server) {}, Message{To: "goulard", Text: strings.Repeat("x", MaxMessage)},
			"answered 413: the body has 65"},
	} {
		t.Run(name, func(t *testing.T) {
			s, url := startServer(t, test.tokens)
			test.fill(s)
			token := "td"
			if test.tokens.Open {
				token = ""
			}
			_, err := client(url, "dorlange", token).Send(t.Context(), test.m)
			if want := "mesh: send message to goulard: " + test.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v\nwant %s", err, want)
			}
			if name == "size" && !strings.HasSuffix(err.Error(), "and the limit is 65536") {
				t.Error(err)
			}
		})
	}
}
