package acp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"agentstateloop/internal/plain"
	"agentstateloop/turn"
)

// update takes in a session/update. One that is not known, or not understood, changes
// nothing. Of what comes while the session is loaded only the meter counts: it was said
// in an earlier turn.
func (c *client) update(params json.RawMessage) {
	var p struct {
		Session string          `json:"sessionId"`
		Update  json.RawMessage `json:"update"`
	}
	var u struct {
		Kind    string          `json:"sessionUpdate"`
		Content json.RawMessage `json:"content"`
		Message string          `json:"messageId"`
	}
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p.Update, &u) != nil {
		c.unknown(string(params))
		return
	}
	if c.session != "" && p.Session != c.session {
		c.unknown("of another session: " + string(params))
		return
	}
	if u.Kind == "usage_update" {
		c.meter.update(p.Update)
		return
	}
	if c.replaying || !c.prompting {
		return
	}
	switch u.Kind {
	case "session_info_update":
		c.noteThread(p.Update)
		return
	case "agent_message_chunk":
		if text, ok := turn.TextBlock(u.Content); ok {
			c.last = text
			c.Emit(turn.Event{Kind: turn.TextDelta, Text: c.said.next(text, u.Message)})
			return
		}
	case "agent_thought_chunk":
		if text, ok := turn.TextBlock(u.Content); ok {
			c.Emit(turn.Event{Kind: turn.Thinking, Text: text})
			return
		}
	case "tool_call", "tool_call_update":
		if c.tool(p.Update) {
			return
		}
	case "user_message_chunk", "plan", "available_commands_update", "current_mode_update", "config_option_update":
		return // nothing of it is ours to show
	}
	c.unknown(string(p.Update))
}

// noteThread notes whether codex has given the turn up. It says why in a message, as if that
// were an answer, and ends the turn as if all were well.
func (c *client) noteThread(update json.RawMessage) {
	var u struct {
		Meta struct {
			Codex struct {
				Thread struct {
					Type string `json:"type"`
				} `json:"threadStatus"`
			} `json:"codex"`
		} `json:"_meta"`
	}
	if json.Unmarshal(update, &u) == nil && u.Meta.Codex.Thread.Type != "" {
		c.gaveUp = u.Meta.Codex.Thread.Type == "systemError"
	}
}

// transcript puts an empty line between the messages of an agent, whose pieces do not say
// where one ends.
type transcript struct {
	began, broken bool
	message       string
}

func (t *transcript) next(text, message string) string {
	apart := t.began && (t.broken || message != t.message)
	t.began, t.broken, t.message = true, false, message
	if apart {
		return "\n\n" + text
	}
	return text
}

// call is what the agent has said of one call of a tool.
type call struct {
	ID        string          `json:"toolCallId"`
	Name      string          `json:"name"`
	Title     string          `json:"title"`
	Kind      string          `json:"kind"`
	Status    string          `json:"status"`
	Input     json.RawMessage `json:"rawInput"`
	Content   json.RawMessage `json:"content"`
	Locations json.RawMessage `json:"locations"`
}

// Bounds of what is kept of calls that have not ended.
const (
	maxCalls = 1000
	maxEnded = 10000
	maxInput = 256 << 10 // bytes of one call
)

// tools are the calls that have not ended.
type tools struct {
	open  map[string]call
	order []string // their ids, the oldest first
	ended map[string]bool
}

// parseCall reads what was said of a call. Fields of another type than the protocol
// says count as not said.
func parseCall(raw json.RawMessage) (call, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return call{}, false
	}
	text := func(name string) string {
		var s string
		_ = json.Unmarshal(fields[name], &s) // one that is not a text is not said
		return s
	}
	said := func(name string) json.RawMessage {
		if string(fields[name]) == "null" {
			return nil
		}
		return fields[name]
	}
	c := call{
		ID: text("toolCallId"), Name: text("name"), Title: text("title"), Kind: text("kind"), Status: text("status"),
		Input: said("rawInput"), Content: said("content"), Locations: said("locations"),
	}
	return c, c.ID != ""
}

// over returns c with what a later message says of it.
func (c call) over(later call) call {
	for _, f := range []struct{ now, new *string }{{&c.ID, &later.ID}, {&c.Name, &later.Name}, {&c.Title, &later.Title}, {&c.Kind, &later.Kind}, {&c.Status, &later.Status}} {
		if *f.new != "" {
			*f.now = *f.new
		}
	}
	for _, f := range []struct{ now, new *json.RawMessage }{{&c.Input, &later.Input}, {&c.Content, &later.Content}, {&c.Locations, &later.Locations}} {
		if len(*f.new) > 0 {
			*f.now = *f.new
		}
	}
	return c
}

// size returns how many bytes it has.
func (c call) size() int { return len(c.ID) + c.request().Size() }

// request returns what permission is asked for. The number and the state of the call do not
// belong to that.
func (c call) request() turn.ToolRequest {
	return turn.ToolRequest{Name: c.Name, Title: c.Title, Kind: c.Kind, Input: c.Input, Content: c.Content, Locations: c.Locations}
}

// kind returns the kind of the tool, of turn.ToolKinds.
func (c call) kind() string { return c.request().KnownKind() }

func (c call) ended() bool { return c.Status == "completed" || c.Status == "failed" }

// tool takes in what the agent says of a call of a tool, and tells when it begins and
// when it ends.
func (c *client) tool(raw json.RawMessage) bool {
	said, ok := parseCall(raw)
	if !ok {
		return false
	}
	c.said.broken = true
	if c.calls.ended[said.ID] {
		return true // more about one that has ended
	}
	known, open := c.calls.open[said.ID]
	now := known.over(said)
	if !open {
		c.begins(now)
	}
	if now.ended() {
		c.calls.close(now.ID)
		c.Emit(turn.Event{Kind: turn.ToolResult, ToolID: shown(now.ID)})
		return true
	}
	c.calls.keep(now)
	return true
}

// begins tells that a call has begun. Its title may be a whole command, so it is not the
// name of the tool: where the agent gives none, its kind is.
func (c *client) begins(now call) {
	c.Emit(turn.Event{Kind: turn.ToolUse, Tool: cmp.Or(shown(now.Name), now.kind()), ToolID: shown(now.ID), Text: plain.Line(plain.Cut(now.Title, maxText))})
}

// keep remembers a call that has not ended. Of one that is too large only the id and the
// kind stay, with a title that says so.
func (t *tools) keep(c call) {
	if c.size() > maxInput {
		c = call{ID: shown(c.ID), Kind: c.kind(), Title: tooLarge(c.size())}
	}
	if _, open := t.open[c.ID]; !open {
		t.order = append(t.order, c.ID)
	}
	t.open[c.ID] = c
	if len(t.order) > maxCalls {
		delete(t.open, t.order[0])
		t.order = t.order[1:]
	}
}

func (t *tools) close(id string) {
	if len(t.ended) > maxEnded {
		t.ended = nil
	}
	if t.ended == nil {
		t.ended = map[string]bool{}
	}
	t.ended[id] = true
	delete(t.open, id)
	t.order = slices.DeleteFunc(t.order, func(other string) bool { return other == id })
}

func tooLarge(n int) string { return fmt.Sprintf("(%s, too much to show)", plain.Size(int64(n))) }
