package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentstateloop/internal/lazy"
	"agentstateloop/turn"
)

// option is an answer that a request for permission offers.
type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// outcome is our answer to a request for permission.
type outcome struct {
	Outcome struct {
		Outcome string `json:"outcome"`
		Option  string `json:"optionId,omitempty"`
	} `json:"outcome"`
}

func selectedOutcome(id string) (o outcome) {
	o.Outcome.Outcome, o.Outcome.Option = "selected", id
	return o
}

func cancelledOutcome() (o outcome) {
	o.Outcome.Outcome = "cancelled"
	return o
}

// chooseOption returns the first option of the first kind that is offered. Callers list "once"
// kinds first: "always" would also decide later turns, which may have another cause.
func chooseOption(options []option, kinds ...string) (string, bool) {
	for _, kind := range kinds {
		if i := slices.IndexFunc(options, func(o option) bool { return o.Kind == kind }); i >= 0 {
			return options[i].ID, true
		}
	}
	return "", false
}

// permit decides a request for permission (docs/protocol.md, "An agent that speaks ACP"). It grants
// a request, once, if the cause of the turn or an earlier answer of the operator allows it. It
// refuses all others. But if the operator may be asked, permit asks the operator and ends the
// turn, which continues after the answer.
func (c *client) permit(ctx context.Context, params json.RawMessage) outcome {
	update, options, ok := parseRequest(params)
	if !ok {
		c.unknown("invalid request for permission: " + string(params))
		return cancelledOutcome()
	}
	c.text.interrupted = true
	r := c.calls.open[update.ID].merge(update)
	if r.size() > maxInput {
		r = call{ID: r.ID, Name: displayName(r.Name), Kind: r.Kind, Title: sizeNote(r.size())}
	}
	if c.questionID != "" || c.cancelled || !c.prompting {
		return cancelledOutcome()
	}
	identity := r.request().Identity()
	switch {
	case c.isOurTool(r):
		return c.allow(r, options, turn.PermissionGranted)
	case slices.Contains(c.Grants.Kinds, r.kind()):
		return c.allow(r, options, turn.PermissionGranted)
	case c.once[identity] > 0:
		c.once[identity]--
		return c.allow(r, options, turn.PermissionUsed)
	case c.denied[identity]:
		return c.reject(r, options, turn.PermissionDenied)
	case c.Grants.Ask && c.Ask != nil:
		return c.ask(ctx, r, options)
	}
	return c.reject(r, options, turn.PermissionRefused)
}

// isOurTool reports whether a request is for a tool of one of the servers that we offered the
// agent. claude-agent-acp puts the tool's full name into the call's name or title. gemini shows it
// in the call's id and title.
func (c *client) isOurTool(r call) bool {
	if r.kind() != "other" {
		return false
	}
	for _, server := range c.Servers {
		if tool, ok := strings.CutPrefix(cmp.Or(r.Name, r.Title), "mcp__"+server.Name+"__"); ok && toolName.Get().MatchString(tool) {
			return true
		}
		tool, ok := strings.CutSuffix(r.Title, " ("+server.Name+" MCP Server)")
		if ok && r.Name == "" && toolName.Get().MatchString(tool) && strings.HasPrefix(r.ID, "mcp_"+server.Name+"_"+tool+"__") {
			return true
		}
	}
	return false
}

var toolName = lazy.NewRegexp(`^[a-z]+(_[a-z]+)*$`)

// parseRequest parses a request for permission. It skips options that do not parse.
func parseRequest(params json.RawMessage) (update call, options []option, ok bool) {
	var p struct {
		Call    json.RawMessage   `json:"toolCall"`
		Options []json.RawMessage `json:"options"`
	}
	if json.Unmarshal(params, &p) != nil {
		return update, nil, false
	}
	for _, raw := range p.Options {
		var o option
		if json.Unmarshal(raw, &o) == nil && o.ID != "" {
			options = append(options, o)
		}
	}
	update, ok = parseCall(p.Call)
	return update, options, ok
}

// allow grants a request. It emits the decision before the agent can act on it.
func (c *client) allow(r call, options []option, decision string) outcome {
	id, ok := chooseOption(options, "allow_once", "allow_always")
	if !ok {
		return c.reject(r, options, turn.PermissionRefused)
	}
	c.emitDecision(r, decision, "")
	if _, open := c.calls.open[r.ID]; !open {
		c.emitToolUse(r)
		c.calls.remember(r)
	}
	return selectedOutcome(id)
}

func (c *client) reject(r call, options []option, decision string) outcome {
	c.emitDecision(r, decision, "")
	c.Emit(turn.Event{Kind: turn.Refused, Tool: r.kind(), Text: cmp.Or(r.Title, r.Name)})
	if id, ok := chooseOption(options, "reject_once", "reject_always"); ok {
		return selectedOutcome(id)
	}
	return cancelledOutcome()
}

// ask asks the operator, and cancels the turn. It refuses a request that cannot be shown as a
// whole, because the operator could not read all of it.
func (c *client) ask(ctx context.Context, r call, options []option) outcome {
	text, err := r.request().Question()
	id := ""
	if err == nil {
		id, err = c.Ask(ctx, text) // an error with an id concerns the mail, which is sent later
	}
	if id == "" {
		c.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("cannot ask the operator for permission (%s): %v", r.kind(), err)})
		return c.reject(r, options, turn.PermissionRefused)
	}
	c.questionID = id
	c.emitDecision(r, turn.PermissionAsked, id)
	c.cancel()
	return cancelledOutcome()
}

func (c *client) emitDecision(r call, decision, question string) {
	c.Emit(turn.Event{Kind: turn.Permission, Tool: r.kind(), ToolID: r.request().Identity(), Text: decision, Question: question})
}
