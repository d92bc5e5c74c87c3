package acp

import (
	"encoding/json"
	"strings"
	"testing"

	"agentstateloop/turn"
)

// chooser is an agent that answers with what was chosen of its settings, in order.
func chooser(opened object) func(*scripted) {
	return func(s *scripted) {
		s.initialize(object{})
		s.session = "s1"
		opened["sessionId"] = "s1"
		s.reply(s.until("session/new"), opened)
		var chosen []string
		for {
			h := s.read()
			switch h.Method {
			case "session/prompt":
				s.say(strings.Join(chosen, ", "))
				s.end(h, "end_turn")
				s.until("")
				return
			case "session/set_config_option", "session/set_model", "session/set_mode":
				var p map[string]any
				if err := json.Unmarshal(h.Params, &p); err != nil || p["sessionId"] != "s1" {
					s.fault(h, -32602, "what?", nil)
					continue
				}
				if p["value"] == "dear" {
					s.fault(h, -32602, "your plan does not have it", nil)
					continue
				}
				delete(p, "sessionId")
				chosen = append(chosen, strings.TrimPrefix(h.Method, "session/")+" "+jsonText(p))
				if p["value"] == "large" { // which has a setting of its own
					s.reply(h, object{"configOptions": []object{
						{"id": "m", "category": "model", "type": "select", "currentValue": "large"},
						{"id": "effort", "type": "select", "currentValue": "low", "options": []object{{"value": "low"}, {"value": "high"}}},
					}})
					continue
				}
				s.reply(h, object{})
			}
		}
	}
}

var theirSettings = []any{
	7,
	object{"id": "m", "category": "model", "type": "select", "currentValue": "small", "options": []object{
		{"group": "all", "options": []object{{"value": "small"}, {"value": "large"}, {"value": "dear"}}}}},
	object{"id": "mode", "category": "mode", "type": "select", "currentValue": "agent", "options": []object{{"value": "agent"}, {"value": "read-only"}}},
	object{"id": "fast", "type": "boolean", "currentValue": false},
}

func init() {
	scripts["with settings"] = chooser(object{"configOptions": theirSettings})
	scripts["with models and modes"] = chooser(object{
		"models": object{"currentModelId": "small", "availableModels": []object{{"modelId": "small"}, {"modelId": "large"}}},
		"modes":  object{"currentModeId": "plan", "availableModes": []object{{"id": "plan"}, {"id": "default"}, {"id": "yolo"}}},
	})
}

// TestSettings chooses settings of a session: the model first, the mode last, and nothing that
// is so already. What the agent does not have, or does not accept, is an obstacle and no failure
// of the message.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		script  string
		options map[string]string
		chosen  string
		wrong   string
	}{
		{"with settings", nil, "", ""},
		{"with settings", map[string]string{"mode": "read-only", "model": "large", "effort": "high"},
			`set_config_option {"configId":"m","value":"large"}, set_config_option {"configId":"effort","value":"high"}`, `unknown setting "mode"; the agent offers: effort, m`},
		{"with settings", map[string]string{"mode": "read-only", "fast": "true"},
			`set_config_option {"configId":"fast","type":"boolean","value":true}, set_config_option {"configId":"mode","value":"read-only"}`, ""},
		{"with settings", map[string]string{"model": "small", "fast": "false", "mode": "agent"}, "", ""},
		{"with settings", map[string]string{"model": "huge"}, "", `invalid value "huge" for setting model; the agent offers: small, large, dear`},
		{"with settings", map[string]string{"model": "dear"}, "", `the agent rejected "dear" for setting m: your plan does not have it`},
		{"with settings", map[string]string{"fast": "perhaps"}, "", `invalid value "perhaps" for setting fast; the agent offers: true, false`},
		{"with settings", map[string]string{"colour": "red"}, "", `unknown setting "colour"; the agent offers: fast, m, mode`},
		{"with models and modes", nil, `set_mode {"modeId":"default"}`, ""},
		{"with models and modes", map[string]string{"model": "large", "mode": "yolo"}, `set_model {"modelId":"large"}, set_mode {"modeId":"yolo"}`, ""},
		{"with models and modes", map[string]string{"model": "small", "mode": "plan"}, "", ""},
		{"with models and modes", map[string]string{"model": "huge"}, "", `invalid value "huge" for setting model; the agent offers: small, large`},
		{"with models and modes", map[string]string{"mode": "none"}, "", `invalid value "none" for setting mode; the agent offers: plan, default, yolo`},
		{"asks to run ls", map[string]string{"model": "x"}, "", `unknown setting "model"; the agent offers: none`},
	} {
		p := play(t, c.script, func(s *Settings) { s.Options = c.options })
		done := p.done(t)
		if c.wrong != "" {
			if !done.Failed || !done.Obstacle || !strings.Contains(done.Text, c.wrong) || p.said() != "" {
				t.Errorf("%s, %v: %+v; %q", c.script, c.options, done, p.said())
			}
			continue
		}
		if done.Failed || p.said() != c.chosen {
			t.Errorf("%s, %v: chosen %s, want %s; %+v", c.script, c.options, p.said(), c.chosen, done)
		}
		if model := c.options["model"]; model != "" && done.Model != model {
			t.Errorf("%s, %v: the model is %q", c.script, c.options, done.Model)
		}
	}
}

// TestInvalidSettingIsObstacle runs an attempt whose options the agent does not have: the
// message waits, and is not burned.
func TestInvalidSettingIsObstacle(t *testing.T) {
	b := newFixture(t, "with settings")
	b.Config.Options = map[string]string{"colour": "red"}
	if r := b.run(); r.Outage == nil || r.Outage.Kind != "obstacle" || !strings.Contains(r.Outage.Reason, `unknown setting "colour"`) || r.SessionFailed {
		t.Errorf("%+v", r)
	}
	b = newFixture(t, "with models and modes")
	b.Config.Options = map[string]string{"model": "large", "mode": "yolo"}
	b.Config.Low.Options = map[string]string{"model": "small"}
	low, _ := b.Config.WithLow(turn.Attempt{})
	if low.Options["model"] != "small" || low.Options["mode"] != "yolo" || b.Config.Options["model"] != "large" {
		t.Errorf("lowered: %v; usual: %v", low.Options, b.Config.Options)
	}
}

func init() {
	scripts["warns"] = func(s *scripted) { // as codex-acp does
		h := s.until("initialize")
		s.reply(h, object{"protocolVersion": 1, "agentCapabilities": object{}})
		var p struct {
			Client struct {
				Session struct {
					Notices map[string]any `json:"notices"`
				} `json:"session"`
			} `json:"clientCapabilities"`
		}
		knows := json.Unmarshal(h.Params, &p) == nil && p.Client.Session.Notices != nil
		s.newSession()
		prompt := s.until("session/prompt")
		if knows {
			s.update("notice", object{"severity": "warning", "title": "Model metadata not found"})
		} else {
			s.say("Warning: Model metadata not found\n\n")
		}
		s.say("It is green.")
		s.end(prompt, "end_turn")
		s.until("")
	}
}

// TestWarningsAreNotAnswer has the program of the agent warn its user: codex says so in the
// answer, unless its client takes notices.
func TestWarningsAreNotAnswer(t *testing.T) {
	p := play(t, "warns", nil)
	if p.said() != "It is green." {
		t.Errorf("the answer is %q", p.said())
	}
}

func init() {
	scripts["gives up"] = func(s *scripted) { // as codex-acp does
		p := s.begin()
		thread := func(status string) {
			s.update("session_info_update", object{"_meta": object{"codex": object{"threadStatus": object{"type": status}}}})
		}
		thread("active")
		s.update("session_info_update", object{"title": "a title"})
		thread("systemError")
		s.say("unexpected status 503 Service Unavailable: Overloaded\n\n")
		s.end(p, "end_turn")
		s.until("")
	}
	scripts["gave up before"] = func(s *scripted) {
		p := s.begin()
		for _, status := range []string{"systemError", "active"} {
			s.update("session_info_update", object{"_meta": object{"codex": object{"threadStatus": object{"type": status}}}})
		}
		s.say("It is green.")
		s.end(p, "end_turn")
		s.until("")
	}
}

// TestAgentGivesUp has an agent report that its turn has failed, and end it as if it had
// not: what it says then is the reason, and no answer.
func TestAgentGivesUp(t *testing.T) {
	if done := play(t, "gives up", nil).done(t); !done.Failed || done.Text != "unexpected status 503 Service Unavailable: Overloaded" {
		t.Errorf("%+v", done)
	}
	if r := newFixture(t, "gives up").run(); r.Outage == nil || r.Outage.Kind != "overload" {
		t.Errorf("%+v", r)
	}
	check(t, newFixture(t, "gave up before").run(), turn.Success, "It is green.", "")
}
