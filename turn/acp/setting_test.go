package acp

import (
	"encoding/json"
	"strings"
	"testing"

	"agentstateloop/turn"
)

// settingsAgent returns an agent whose answer lists our changes of its settings, in order. opened is
// its answer to session/new.
func settingsAgent(opened object) func(*scripted) {
	return func(s *scripted) {
		s.initialize(object{})
		s.session = "s1"
		opened["sessionId"] = "s1"
		s.reply(s.until("session/new"), opened)
		var changes []string
		for {
			h := s.read()
			switch h.Method {
			case "session/prompt":
				s.say(strings.Join(changes, ", "))
				s.finish(h, "end_turn")
			case "session/set_config_option", "session/set_model", "session/set_mode":
				var p map[string]any
				if err := json.Unmarshal(h.Params, &p); err != nil || p["sessionId"] != "s1" {
					s.fault(h, -32602, "invalid", nil)
					continue
				}
				if p["value"] == "dear" {
					s.fault(h, -32602, "your plan does not have it", nil)
					continue
				}
				delete(p, "sessionId")
				changes = append(changes, strings.TrimPrefix(h.Method, "session/")+" "+jsonText(p))
				if p["value"] == "large" { // a model with another setting
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

var agentSettings = []any{
	7,
	object{"id": "m", "category": "model", "type": "select", "currentValue": "small", "options": []object{
		{"group": "all", "options": []object{{"value": "small"}, {"value": "large"}, {"value": "dear"}}}}},
	object{"id": "mode", "category": "mode", "type": "select", "currentValue": "agent", "options": []object{{"value": "agent"}, {"value": "read-only"}}},
	object{"id": "fast", "type": "boolean", "currentValue": false},
}

func init() {
	scripts["with settings"] = settingsAgent(object{"configOptions": agentSettings})
	scripts["with models and modes"] = settingsAgent(object{
		"models": object{"currentModelId": "small", "availableModels": []object{{"modelId": "small"}, {"modelId": "large"}}},
		"modes":  object{"currentModeId": "plan", "availableModes": []object{{"id": "plan"}, {"id": "default"}, {"id": "yolo"}}},
	})
}

// TestSettingsOfSession checks that the model is set first and the mode last, and a setting with the
// right value not at all. A setting that the agent does not have or rejects is an obstacle, not a
// failure of the message.
func TestSettingsOfSession(t *testing.T) {
	for _, c := range []struct {
		script   string
		options  map[string]string
		changes  string
		obstacle string
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
		if c.obstacle != "" {
			if !done.Failed || !done.Obstacle || !strings.Contains(done.Text, c.obstacle) || p.answer() != "" {
				t.Errorf("%s, %v: %+v; %q", c.script, c.options, done, p.answer())
			}
			continue
		}
		if done.Failed || p.answer() != c.changes {
			t.Errorf("%s, %v: changed %s, want %s; %+v", c.script, c.options, p.answer(), c.changes, done)
		}
		if model := c.options["model"]; model != "" && done.Model != model {
			t.Errorf("%s, %v: the model is %q", c.script, c.options, done.Model)
		}
	}
}

// TestInvalidSettingIsObstacle checks that the message of an attempt waits whose options the agent
// does not have.
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
		s.finish(prompt, "end_turn")
	}
}

// TestWarningsAreNotAnswer has the program of the agent warn its user. codex puts the warning into the
// answer, unless its client takes notices.
func TestWarningsAreNotAnswer(t *testing.T) {
	if p := play(t, "warns", nil); p.answer() != "It is green." {
		t.Errorf("the answer is %q", p.answer())
	}
}

func init() {
	reports := func(answer string, statuses ...string) func(*scripted) { // as codex-acp does
		return func(s *scripted) {
			p := s.begin()
			s.update("session_info_update", object{"title": "a title"})
			for _, status := range statuses {
				s.update("session_info_update", object{"_meta": object{"codex": object{"threadStatus": object{"type": status}}}})
			}
			s.say(answer)
			s.finish(p, "end_turn")
		}
	}
	scripts["gives up"] = reports("unexpected status 503 Service Unavailable: Overloaded\n\n", "active", "systemError")
	scripts["gave up before"] = reports("It is green.", "systemError", "active")
}

// TestAgentGivesUp has an agent report that its turn has failed, and end it as successful: its text is
// then the reason of the failure, not an answer.
func TestAgentGivesUp(t *testing.T) {
	if done := play(t, "gives up", nil).done(t); !done.Failed || done.Text != "unexpected status 503 Service Unavailable: Overloaded" {
		t.Errorf("%+v", done)
	}
	if r := newFixture(t, "gives up").run(); r.Outage == nil || r.Outage.Kind != "overload" {
		t.Errorf("%+v", r)
	}
	wantResult(t, newFixture(t, "gave up before").run(), turn.Success, "It is green.", "")
}
