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

// outcome is our answer to it.
type outcome struct {
	Outcome struct {
		Outcome string `json:"outcome"`
		Option  string `json:"optionId,omitempty"`
	} `json:"outcome"`
}

func selected(id string) (o outcome) {
	o.Outcome.Outcome, o.Outcome.Option = "selected", id
	return o
}

func cancelledOutcome() (o outcome) {
	o.Outcome.Outcome = "cancelled"
	return o
}

// choose returns the first option of a kind, or else of the next one. What is said once
// comes first: "always" would decide later turns too, which may have another cause.
func choose(options []option, kinds ...string) (string, bool) {
	for _, kind := range kinds {
		if i := slices.IndexFunc(options, func(o option) bool { return o.Kind == kind }); i >= 0 {
			return options[i].ID, true
		}
	}
	return "", false
}

// permit decides a request for permission (docs/design.md, "An agent that speaks ACP"):
// what the cause of the turn grants, and what the operator has allowed before, is
// granted once. Anything else is refused. If the operator may be asked, they are, and
// the turn ends, to go on when they have answered.
func (c *client) permit(ctx context.Context, params json.RawMessage) outcome {
	said, options, ok := parseRequest(params)
	if !ok {
		c.unknown("a request for permission: " + string(params))
		return cancelledOutcome()
	}
	c.said.broken = true
	r := c.calls.open[said.ID].over(said)
	if r.size() > maxInput {
		r = call{ID: r.ID, Name: shown(r.Name), Kind: r.Kind, Title: tooLarge(r.size())}
	}
	if c.asked != "" || c.cancelled || !c.prompting {
		return cancelledOutcome()
	}
	identity := r.request().Identity()
	switch {
	case c.ours(r):
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

// ours reports whether a request is for a tool of one of the servers that the agent was
// offered: claude-agent-acp names it in full, and gemini in the number and the title of
// the call.
func (c *client) ours(r call) bool {
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

// parseRequest reads a request for permission. An option that is not understood is left
// out.
func parseRequest(params json.RawMessage) (said call, options []option, ok bool) {
	var p struct {
		Call    json.RawMessage   `json:"toolCall"`
		Options []json.RawMessage `json:"options"`
	}
	if json.Unmarshal(params, &p) != nil {
		return said, nil, false
	}
	for _, raw := range p.Options {
		var o option
		if json.Unmarshal(raw, &o) == nil && o.ID != "" {
			options = append(options, o)
		}
	}
	said, ok = parseCall(p.Call)
	return said, options, ok
}

// allow grants a request. It is told before the agent can act on it.
func (c *client) allow(r call, options []option, decision string) outcome {
	id, ok := choose(options, "allow_once", "allow_always")
	if !ok {
		return c.reject(r, options, turn.PermissionRefused)
	}
	c.decided(r, decision, "")
	if _, open := c.calls.open[r.ID]; !open {
		c.begins(r)
		c.calls.keep(r)
	}
	return selected(id)
}

func (c *client) reject(r call, options []option, decision string) outcome {
	c.decided(r, decision, "")
	c.Emit(turn.Event{Kind: turn.Refused, Tool: r.kind(), Text: cmp.Or(r.Title, r.Name)})
	if id, ok := choose(options, "reject_once", "reject_always"); ok {
		return selected(id)
	}
	return cancelledOutcome()
}

// ask asks the operator, and cancels the turn. A request that cannot be shown as a whole
// is refused: nobody can allow what they cannot read.
func (c *client) ask(ctx context.Context, r call, options []option) outcome {
	text, err := r.request().Question()
	id := ""
	if err == nil {
		id, err = c.Ask(ctx, text) // an error besides an id is of the mail, which is sent later
	}
	if id == "" {
		c.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("the agent asked for permission (%s), and the operator was not asked: %v", r.kind(), err)})
		return c.reject(r, options, turn.PermissionRefused)
	}
	c.asked = id
	c.decided(r, turn.PermissionAsked, id)
	c.cancel()
	return cancelledOutcome()
}

func (c *client) decided(r call, decision, question string) {
	c.Emit(turn.Event{Kind: turn.Permission, Tool: r.kind(), ToolID: r.request().Identity(), Text: decision, Question: question})
}
