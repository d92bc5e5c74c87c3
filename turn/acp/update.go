package acp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"agentstateloop/internal/plain"
	"agentstateloop/turn"
)

// update processes a session/update. An unknown or unparsable update becomes an Unknown event.
// Until the prompt is sent, only the meter is updated, because all other updates repeat earlier
// turns.
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
		c.unknown("update of another session: " + string(params))
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
			c.lastPiece = text
			c.Emit(turn.Event{Kind: turn.TextDelta, Text: c.text.next(text, u.Message)})
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
		return // not shown
	}
	c.unknown(string(p.Update))
}

// noteThread records whether codex has given up the turn. Then codex sends the reason as if it
// were an answer, and ends the turn as if it had succeeded.
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

// transcript puts an empty line between the messages of an agent, because the pieces do not mark
// the end of a message.
type transcript struct {
	started, interrupted bool
	message              string
}

func (t *transcript) next(text, message string) string {
	apart := t.started && (t.interrupted || message != t.message)
	t.started, t.interrupted, t.message = true, false, message
	if apart {
		return "\n\n" + text
	}
	return text
}

// call is the known state of one tool call.
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

// Bounds of the calls that we remember.
const (
	maxCalls = 1000
	maxEnded = 10000
	maxInput = 256 << 10 // bytes of one open call
)

// tools holds the open calls and the ids of ended ones.
type tools struct {
	open  map[string]call
	order []string // ids of the open calls, oldest first
	ended map[string]bool
}

// parseCall parses a message about a call. A field of another type than in the protocol counts as
// missing.
func parseCall(raw json.RawMessage) (call, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return call{}, false
	}
	text := func(name string) string {
		var s string
		_ = json.Unmarshal(fields[name], &s) // a field that is not a text counts as missing
		return s
	}
	value := func(name string) json.RawMessage {
		if string(fields[name]) == "null" {
			return nil
		}
		return fields[name]
	}
	c := call{
		ID: text("toolCallId"), Name: text("name"), Title: text("title"), Kind: text("kind"), Status: text("status"),
		Input: value("rawInput"), Content: value("content"), Locations: value("locations"),
	}
	return c, c.ID != ""
}

// merge returns c updated by a later message about it.
func (c call) merge(later call) call {
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

// size returns the size of the call in bytes.
func (c call) size() int { return len(c.ID) + c.request().Size() }

// request returns the request for permission to make the call. It omits the id and the status of
// the call.
func (c call) request() turn.ToolRequest {
	return turn.ToolRequest{Name: c.Name, Title: c.Title, Kind: c.Kind, Input: c.Input, Content: c.Content, Locations: c.Locations}
}

// kind returns the kind of the tool, one of turn.ToolKinds.
func (c call) kind() string { return c.request().KnownKind() }

func (c call) ended() bool { return c.Status == "completed" || c.Status == "failed" }

// tool processes a message about a tool call. It emits an event when the call begins and when it
// ends. It returns false if the message does not parse.
func (c *client) tool(raw json.RawMessage) bool {
	update, ok := parseCall(raw)
	if !ok {
		return false
	}
	c.text.interrupted = true
	if c.calls.ended[update.ID] {
		return true // a message about an ended call
	}
	known, open := c.calls.open[update.ID]
	now := known.merge(update)
	if !open {
		c.emitToolUse(now)
	}
	if now.ended() {
		c.calls.close(now.ID)
		c.Emit(turn.Event{Kind: turn.ToolResult, ToolID: displayName(now.ID)})
		return true
	}
	c.calls.remember(now)
	return true
}

// emitToolUse emits the beginning of a call. The event names the tool, or its kind if the agent
// gives no name. The title does not serve as a name, because it may be a whole command.
func (c *client) emitToolUse(now call) {
	c.Emit(turn.Event{Kind: turn.ToolUse, Tool: cmp.Or(displayName(now.Name), now.kind()), ToolID: displayName(now.ID), Text: plain.Line(plain.Cut(now.Title, maxText))})
}

// remember remembers an open call. Of a call that is too large it keeps only the id and the kind,
// and a title with the size.
func (t *tools) remember(c call) {
	if c.size() > maxInput {
		c = call{ID: displayName(c.ID), Kind: c.kind(), Title: sizeNote(c.size())}
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

func sizeNote(n int) string { return fmt.Sprintf("(%s, too large to show)", plain.Size(int64(n))) }
