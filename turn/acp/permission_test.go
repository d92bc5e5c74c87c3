package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentstateloop/turn"
)

func shell(command string) object {
	return object{"toolCallId": "t1", "kind": "execute", "title": command, "rawInput": object{"command": command, "timeout": 5}}
}

// identityOf returns the identity of a request for permission.
func identityOf(t *testing.T, request object) string {
	t.Helper()
	parsed, ok := parseCall([]byte(jsonText(request)))
	if !ok {
		t.Fatal(request)
	}
	return parsed.request().Identity()
}

func init() {
	asks := func(options any, calls ...object) func(*scripted) {
		return func(s *scripted) {
			p := s.begin()
			for _, c := range calls {
				s.say(s.ask(c, options) + " ")
			}
			s.finish(p, "end_turn")
		}
	}
	scripts["asks to run ls"] = asks(allOptions, shell("ls"))
	scripts["asks for four"] = asks(allOptions, shell("ls"), object{"toolCallId": "t2", "kind": "read", "title": "x"},
		object{"toolCallId": "t3", "title": "no kind"}, object{"toolCallId": "t4", "kind": "of tomorrow", "title": "y"})
	scripts["asks for another first"] = asks(allOptions, shell("rm -rf /"), shell("ls"), shell("ls"))
	scripts["goes on asking"] = asks(allOptions, shell("ls"), shell("ls"), shell("ls"))
	scripts["only always"] = asks([]object{{"optionId": "aa", "kind": "allow_always"}, {"optionId": "ra", "kind": "reject_always"}}, shell("ls"))
	scripts["no options"] = asks(nil, shell("ls"))
	scripts["strange options"] = asks([]any{7, object{"optionId": 5, "kind": "allow_once"}, object{"optionId": "z", "kind": "of tomorrow"}}, shell("ls"))
	scripts["not a request"] = asks(allOptions, nil)
	scripts["reported before"] = func(s *scripted) { // the request has only the id of the call
		p := s.begin()
		s.update("tool_call", shell("ls"))
		s.say(s.ask(object{"toolCallId": "t1"}, allOptions))
		s.finish(p, "end_turn")
	}
	scripts["asks before the prompt"] = func(s *scripted) {
		s.initialize(object{})
		n := s.until("session/new")
		s.session = "s1"
		answer := s.ask(shell("ls"), allOptions)
		s.reply(n, object{"sessionId": "s1"})
		s.answer(answer)
	}
	scripts["cancels in order"] = func(s *scripted) {
		p := s.begin()
		s.say("I would like to. ")
		answer := s.ask(shell("ls"), allOptions)
		s.say(answer)
		if answer == "cancelled" && !s.cancelled {
			s.until("session/cancel")
		}
		s.finish(p, "cancelled")
	}
}

// TestGrantedByCause checks that the kinds of requests that the cause of a turn grants are granted
// once, and all others refused.
func TestGrantedByCause(t *testing.T) {
	for _, c := range []struct {
		script, kinds, answer, decisions string
	}{
		{"asks to run ls", "execute", "ao ", "execute granted"},
		{"asks to run ls", "read edit", "ro ", "execute refused"},
		{"asks to run ls", "", "ro ", "execute refused"},
		{"asks for four", "read", "ro ao ro ro ", "execute refused, read granted, other refused, other refused"},
		{"asks for four", "other", "ro ro ao ao ", "execute refused, read refused, other granted, other granted"},
		{"only always", "execute", "aa", "execute granted"},
		{"only always", "", "ra", "execute refused"},
		{"no options", "execute", "cancelled", "execute refused"},
		{"strange options", "execute", "cancelled", "execute refused"},
		{"not a request", "execute", "cancelled", ""},
		{"reported before", "execute", "ao", "execute granted"},
		{"reported before", "", "ro", "execute refused"},
		{"asks before the prompt", "execute", "cancelled", ""},
	} {
		t.Run(c.script+" "+c.kinds, func(t *testing.T) {
			p := play(t, c.script, func(s *Settings) { s.Grants.Kinds = strings.Fields(c.kinds) })
			if got := p.answer(); strings.Join(strings.Fields(got), " ") != strings.TrimSpace(c.answer) {
				t.Errorf("the answer is %q, want %q", got, c.answer)
			}
			if got := strings.Join(p.decisions(), ", "); got != c.decisions {
				t.Errorf("the decisions are %s, want %s", got, c.decisions)
			}
		})
	}
}

// TestOurTools checks that only the tools of the servers that we offer need no permission.
func TestOurTools(t *testing.T) {
	c := &client{Settings: Settings{Servers: []Server{{Name: "agentstateloop"}}}}
	for _, r := range []call{
		{ID: "toolu_1", Name: "mcp__agentstateloop__remember", Kind: "other"},
		{ID: "toolu_1", Title: "mcp__agentstateloop__submit_result", Kind: "other"},
		{ID: "mcp_agentstateloop_remember__mcp_agentstateloop_remember_17_0", Title: "remember (agentstateloop MCP Server)", Kind: "other"},
	} {
		if !c.isOurTool(r) || (&client{}).isOurTool(r) {
			t.Errorf("%+v", r)
		}
	}
	for _, r := range []call{
		{ID: "toolu_1", Name: "Bash", Title: "mcp__agentstateloop__remember", Kind: "other"},
		{ID: "toolu_1", Name: "mcp__agentstateloop__remember", Kind: "execute"},
		{ID: "toolu_1", Name: "mcp__agentstateloop__", Kind: "other"},
		{ID: "toolu_1", Name: "mcp__agentstateloop__x__mcp__evil__y", Kind: "other"},
		{ID: "toolu_1", Name: "mcp__agentstateloop_evil__remember", Kind: "other"},
		{ID: "mcp_evil_remember__mcp_evil_remember_17_0", Title: "remember (agentstateloop MCP Server)", Kind: "other"},
		{ID: "mcp_agentstateloop_remember__x", Title: "remember (agentstateloop MCP Server) (evil MCP Server)", Kind: "other"},
		{ID: "mcp_agentstateloop_remember__x", Title: "forget (agentstateloop MCP Server)", Kind: "other"},
	} {
		if c.isOurTool(r) {
			t.Errorf("%+v", r)
		}
	}
}

// TestAllowCountsOnce checks that the operator's permission grants only the same request, and only
// once.
func TestAllowCountsOnce(t *testing.T) {
	ls := identityOf(t, shell("ls"))
	p := play(t, "asks for another first", func(s *Settings) { s.Grants.Once = []string{ls} })
	if got := strings.Join(p.decisions(), ", "); got != "execute refused, execute used, execute refused" {
		t.Errorf("decided: %s", got)
	}
	p = play(t, "asks to run ls", func(s *Settings) {
		s.Grants = turn.ACPGrants{Ask: true, Refused: []string{ls}}
		s.Ask = func(context.Context, string) (string, error) {
			t.Error("the operator was asked again")
			return "q", nil
		}
	})
	if got := strings.Join(p.decisions(), ", "); got != "execute denied" {
		t.Errorf("decided: %s", got)
	}
}

// TestIdentityOfRequest checks that different requests have different identities, and equal ones the
// same.
func TestIdentityOfRequest(t *testing.T) {
	base := object{"toolCallId": "t1", "name": "Bash", "kind": "execute", "title": "ls", "rawInput": object{"command": "ls", "n": 1}, "content": []any{}, "locations": []any{object{"path": "/a"}}}
	with := func(key string, value any) object {
		o := object{}
		for k, v := range base {
			o[k] = v
		}
		o[key] = value
		return o
	}
	want := identityOf(t, base)
	for _, same := range []object{with("toolCallId", "t9"), with("status", "pending"), with("content", []object{{"type": "terminal", "terminalId": "t9"}})} {
		if identityOf(t, same) != want {
			t.Errorf("%v is another request", same)
		}
	}
	reordered, _ := parseCall([]byte(`{"locations": [ {"path":"/a"} ], "content":[], "rawInput":{ "n":1, "command":"ls"},"title":"ls","kind":"execute","name":"Bash","toolCallId":"x"}`))
	if reordered.request().Identity() != want {
		t.Error("the order of keys, or a blank, makes another request")
	}
	for _, other := range []object{
		with("name", "Sh"), with("kind", "read"), with("kind", "Execute"), with("title", "ls "), with("title", "ls -l"),
		with("rawInput", object{"command": "ls -l", "n": 1}), with("rawInput", object{"command": "ls", "n": 2}), with("rawInput", object{"command": "ls"}),
		with("content", []any{object{"type": "x"}}), with("content", []object{{"type": "terminal", "terminalId": "t9", "text": "x"}}), with("locations", []any{object{"path": "/b"}}), with("locations", nil),
	} {
		if identityOf(t, other) == want {
			t.Errorf("%v is the same request", other)
		}
	}
	big, bigger := call{ID: "a", Kind: "execute", Title: "1", Input: []byte("12345678901234567890")}, call{ID: "a", Kind: "execute", Title: "1", Input: []byte("12345678901234567891")}
	if big.request().Identity() == bigger.request().Identity() {
		t.Error("different large numbers make the same request")
	}
}

// TestOperatorIsAsked checks that the operator is asked once, and that the turn is then cancelled and
// succeeds.
func TestOperatorIsAsked(t *testing.T) {
	for _, script := range []string{"cancels in order", "goes on asking"} {
		t.Run(script, func(t *testing.T) {
			var asked []string
			p := play(t, script, func(s *Settings) {
				s.Grants.Ask = true
				s.Ask = func(_ context.Context, text string) (string, error) {
					asked = append(asked, text)
					return "q1", errors.New("the mail is sent later")
				}
			})
			if len(asked) != 1 || !strings.HasPrefix(asked[0], "May the agent run a command (execute)? Its request:\n\n    ls\n") {
				t.Errorf("asked %q", asked)
			}
			if d := p.done(t); d.Failed || d.Cut != "" {
				t.Errorf("%+v", d)
			}
			i := slices.IndexFunc(p.events, func(e turn.Event) bool { return e.Kind == turn.Permission })
			if e := p.events[i]; e.Question != "q1" || e.Text != turn.PermissionAsked || e.ToolID != identityOf(t, shell("ls")) {
				t.Errorf("%+v", e)
			}
			if len(p.decisions()) != 1 || !strings.Contains(p.answer(), "cancelled") || strings.Count(p.wire, "session/cancel") != 1 {
				t.Errorf("%v; %q; %s", p.decisions(), p.answer(), p.wire)
			}
		})
	}
}

// TestOperatorUnreachable checks that a request is refused if the operator cannot be asked.
func TestOperatorUnreachable(t *testing.T) {
	p := play(t, "asks to run ls", func(s *Settings) {
		s.Grants.Ask = true
		s.Ask = func(context.Context, string) (string, error) { return "", errors.New("no mail") }
	})
	if p.decisions()[0] != "execute refused" || !strings.Contains(p.texts(turn.Error), "cannot ask the operator for permission (execute): no mail") || strings.Contains(p.wire, "session/cancel") {
		t.Errorf("%+v", p.events)
	}
}

// TestManyPermissionRequests checks that each of 10,000 requests gets an answer.
func TestManyPermissionRequests(t *testing.T) {
	p := play(t, "10000 requests", func(s *Settings) { s.Grants.Kinds = []string{"read"} })
	if n := len(p.decisions()); n != 10000 || p.answer() != fmt.Sprint(10000) {
		t.Errorf("%d decisions; %q", n, p.answer())
	}
}

func init() {
	scripts["10000 requests"] = func(s *scripted) {
		p := s.begin()
		go func() {
			for i := range 10000 {
				s.send(object{"jsonrpc": "2.0", "id": i, "method": "session/request_permission", "params": object{"sessionId": "s1", "options": allOptions,
					"toolCall": object{"toolCallId": fmt.Sprint(i), "kind": "execute", "title": fmt.Sprint("rm ", i)}}})
			}
		}()
		refused := 0
		for refused < 10000 {
			if h := s.read(); strings.Contains(string(h.Result), `"ro"`) {
				refused++
			}
		}
		s.say(fmt.Sprint(refused))
		s.finish(p, "end_turn")
	}
}
