package acp

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn"
)

// scripts are the agents of the tests, by name.
var scripts = map[string]func(*scripted){
	"plain": func(s *scripted) {
		p := s.begin()
		s.update("agent_thought_chunk", text("hm"))
		s.say("I will ")
		s.say("look.")
		s.update("tool_call", object{"toolCallId": "t1", "title": "cat secrets", "kind": "read", "status": "pending"})
		s.update("tool_call_update", object{"toolCallId": "t1", "status": "in_progress"})
		s.update("tool_call_update", object{"toolCallId": "t1", "status": "completed"})
		s.update("tool_call_update", object{"toolCallId": "t1", "title": "late"})
		s.update("tool_call", object{"toolCallId": "t2", "name": "Bash", "title": "ls", "kind": "of tomorrow", "status": "failed"})
		s.say("It is ")
		s.say("blue.")
		s.finish(p, "end_turn")
	},
	"answers before it speaks": func(s *scripted) {
		p := s.begin()
		s.end(p, "end_turn")
		time.Sleep(700 * time.Millisecond) // longer than settle: the answer is still empty
		s.say("It is ")
		time.Sleep(50 * time.Millisecond) // so that it comes after the answer
		s.say("late.")
		s.until("")
	},
	"answers in the middle": func(s *scripted) {
		p := s.begin()
		s.say("It is ")
		s.end(p, "end_turn")
		time.Sleep(50 * time.Millisecond) // so that it comes after the answer
		s.say("late.")
		s.until("")
	},
	"lenient": func(s *scripted) {
		s.line("Debugger attached.")
		s.line("{not json")
		s.line(`[1,2]`)
		s.line(`{"jsonrpc":"2.0","id":77,"result":{}}`)
		s.line(`{"jsonrpc":"2.0","id":"1","result":{"protocolVersion":9}}`)
		s.line(`{"jsonrpc":"2.0","method":12}`)
		p := s.begin()
		s.say("one")
		s.update("agent_message_delta", text("of tomorrow")) // has the form of a chunk
		s.update("from_tomorrow", object{"x": 1})
		s.update("plan", object{"entries": 3})
		s.update("tool_call", object{"toolCallId": 5})
		s.update("tool_call", object{"toolCallId": "t", "title": 7, "kind": []int{1}, "status": "completed"})
		s.update("agent_message_chunk", object{"content": object{"type": "image", "data": "x"}})
		s.update("agent_message_chunk", object{"content": "words"})
		s.line(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"of a subagent"}}}}`)
		s.line(`{"jsonrpc":"2.0","method":"session/update","params":7}`)
		s.line(`{"jsonrpc":"2.0","method":"_vendor/news","params":{}}`)
		s.line(`{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}`)
		s.say(" two")
		s.finish(p, "end_turn")
	},
	"replay": func(s *scripted) {
		s.initialize(object{"loadSession": true})
		load := s.until("session/load")
		s.session = "kept"
		s.update("user_message_chunk", text("earlier question"))
		s.say("earlier answer")
		s.update("tool_call", object{"toolCallId": "old", "kind": "read", "status": "completed"})
		s.reply(load, nil)
		s.say("more of it") // as gemini does
		for range 5 {
			time.Sleep(20 * time.Millisecond) // it goes on for a while, as gemini does
			s.say("and more")
		}
		h := s.read()
		for ; h.Method != "session/prompt"; h = s.read() {
			s.fault(h, -32601, "method not found", nil)
		}
		s.say("new answer")
		s.finish(h, "end_turn")
	},
	"silent replay": func(s *scripted) { // leaves unknown requests unanswered
		s.initialize(object{"loadSession": true})
		s.session = "kept"
		s.reply(s.until("session/load"), object{})
		s.answer("new answer")
	},
	"resume": func(s *scripted) {
		s.initialize(object{"loadSession": true, "sessionCapabilities": object{"resume": object{}}})
		s.session = "kept"
		s.reply(s.until("session/resume"), object{})
		s.answer("new answer")
	},
	"gone":             refusing(object{"loadSession": true}, "session/load", -32603, "Internal error", object{"details": "no such session"}),
	"load needs login": refusing(object{"loadSession": true}, "session/load", -32000, "Authentication required", nil),
	"modes": func(s *scripted) {
		s.initialize(object{"loadSession": true})
		s.session = "s1"
		s.reply(s.until("session/new"), object{"sessionId": "s1", "modes": object{"currentModeId": "yolo", "availableModes": []object{{"id": "yolo"}, {"id": "default"}}}})
		next := s.read()
		if next.Method == "session/set_mode" {
			s.reply(next, object{})
			s.answer("I ask now")
		}
		s.finish(next, "end_turn")
	},
	"models": func(s *scripted) {
		s.initialize(object{})
		s.session = "s1"
		s.reply(s.until("session/new"), object{
			"sessionId": "s1", "models": object{"currentModelId": "of models"},
			"configOptions": []object{{"id": "mode", "currentValue": "default"}, {"id": "x", "category": "model", "currentValue": "of options"}},
		})
		s.finish(s.until("session/prompt"), "end_turn")
	},
	"modes refused": func(s *scripted) {
		s.initialize(object{})
		s.reply(s.until("session/new"), object{"sessionId": "s1", "modes": object{"currentModeId": "yolo", "availableModes": []object{{"id": "yolo"}, {"id": "default"}}}})
		s.fault(s.read(), -32603, "not for you", nil)
		s.until("")
	},
}

func TestEventsOfTurn(t *testing.T) {
	p := play(t, "plain", nil)
	var got []string
	for _, e := range p.events {
		got = append(got, strings.TrimSpace(string(e.Kind)+" "+e.Tool+" "+e.Text))
	}
	want := []string{"session_start", "thinking  hm", "text_delta  I will", "text_delta  look.", "tool_use read cat secrets", "tool_result", "tool_use Bash ls", "tool_result", "text_delta  \n\nIt is", "text_delta  blue.", "done"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if p.events[0].Session != "" {
		t.Error("the result has a session that the agent cannot load")
	}
	for _, want := range []string{`"protocolVersion":1`, `"readTextFile":false`, `"terminal":false`, `"mcpServers":[]`, `"text":"hello"`} {
		if !strings.Contains(p.wire, want) {
			t.Errorf("no %s in\n%s", want, p.wire)
		}
	}
}

// TestUnknownMessagesAreIgnored checks that unknown and invalid messages do not change the answer.
func TestUnknownMessagesAreIgnored(t *testing.T) {
	p := play(t, "lenient", nil)
	if p.answer() != "one\n\n two" {
		t.Errorf("the answer is %q", p.answer())
	}
	if d := p.done(t); d.Failed || d.Cut != "" {
		t.Errorf("%+v", d)
	}
	unknown := p.texts(turn.Unknown)
	for _, want := range []string{"Debugger attached.", "{not json", "from_tomorrow", "agent_message_delta", "_vendor/news", "of a subagent"} {
		if !strings.Contains(unknown, want) {
			t.Errorf("no %s in %s", want, unknown)
		}
	}
}

// TestReplayIsNotAnswer checks that the text that an agent repeats of a loaded session is not part of
// the answer, also after the agent has reported that the session is loaded.
func TestReplayIsNotAnswer(t *testing.T) {
	p := play(t, "replay", func(s *Settings) { s.Session = "kept" })
	if p.answer() != "new answer" {
		t.Errorf("the answer is %q", p.answer())
	}
	if p.texts(turn.ToolUse) != "" || len(p.events) != 3 || p.events[0].Session != "kept" {
		t.Errorf("%+v", p.events)
	}
}

// TestReplayOfSilentAgent checks that an agent that leaves unknown requests unanswered gets the prompt
// after a timeout.
func TestReplayOfSilentAgent(t *testing.T) {
	within := 250 * time.Millisecond
	p := play(t, "silent replay", func(s *Settings) { s.Session, s.StartWithin = "kept", within })
	for p.answer() != "new answer" && within < 20*time.Second { // how soon an agent starts depends on the machine
		within *= 2
		p = play(t, "silent replay", func(s *Settings) { s.Session, s.StartWithin = "kept", within })
	}
	if p.answer() != "new answer" {
		t.Errorf("%+v", p.events)
	}
}

func TestResumeIsPreferred(t *testing.T) {
	p := play(t, "resume", func(s *Settings) { s.Session = "kept" })
	if p.answer() != "new answer" || strings.Contains(p.wire, "_agentstateloop/ping") {
		t.Errorf("%q; %s", p.answer(), p.wire)
	}
}

func TestUnloadableSession(t *testing.T) {
	for script, want := range map[string]string{
		"gone":             "Internal error: no such session",
		"plain":            "the agent cannot load sessions",
		"load needs login": turn.APIRefused + "Authentication required",
	} {
		if d := play(t, script, func(s *Settings) { s.Session = "kept" }).done(t); !d.Failed || d.Text != want {
			t.Errorf("%s: %+v", script, d)
		}
	}
}

// TestAskingMode checks that the mode is changed of an agent that does not ask for permission.
func TestAskingMode(t *testing.T) {
	if p := play(t, "modes", nil); p.answer() != "I ask now" || !strings.Contains(p.wire, `"modeId":"default"`) {
		t.Errorf("%q; %s", p.answer(), p.wire)
	}
	if p := play(t, "modes refused", nil); !p.done(t).Failed || strings.Contains(p.wire, "session/prompt") {
		t.Errorf("%+v", p.events)
	}
}

// TestModelFromOptions checks that of two models that an agent names that of the options counts.
func TestModelFromOptions(t *testing.T) {
	if d := play(t, "models", nil).done(t); d.Model != "of options" {
		t.Errorf("%+v", d)
	}
}
