package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/turn"
)

// protocolVersion is the version of the protocol that we speak.
const protocolVersion = 1

// replayWithin bounds how long an agent may go on repeating a loaded session after its answer.
// replayQuiet is the number of answers in a row that must come without updates in between.
const (
	replayWithin = 20 * time.Second
	replayQuiet  = 3
	replayPause  = 50 * time.Millisecond
)

// agentInfo is the answer to initialize.
type agentInfo struct {
	Protocol     int `json:"protocolVersion"`
	Capabilities struct {
		Loads    bool `json:"loadSession"`
		Sessions struct {
			Resume json.RawMessage `json:"resume"`
		} `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
	Info struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Version string `json:"version"`
	} `json:"agentInfo"`
}

// resumes reports whether the agent can continue a session without repeating it.
func (a agentInfo) resumes() bool {
	resume := string(a.Capabilities.Sessions.Resume)
	return resume != "" && resume != "null" && resume != "false"
}

func (a agentInfo) agent() turn.ACPAgent {
	name := a.Info.Title
	if name == "" {
		name = a.Info.Name
	}
	return turn.ACPAgent{
		Name: displayName(name), Version: displayName(a.Info.Version), Protocol: a.Protocol,
		Loads: a.Capabilities.Loads, Resumes: a.resumes(),
	}
}

// displayName shortens a name from the agent and makes it fit to show.
func displayName(s string) string { return plain.Line(plain.Cut(s, 128)) }

// initialize asks for the agent's description, and checks the version of the protocol.
func (c *client) initialize(ctx context.Context) (agentInfo, error) {
	var a agentInfo
	result, err := c.call(ctx, "initialize", map[string]any{
		"protocolVersion": protocolVersion,
		"clientInfo":      map[string]any{"name": "agentstateloop", "version": c.Version},
		"clientCapabilities": map[string]any{
			"fs":       map[string]any{"readTextFile": false, "writeTextFile": false},
			"terminal": false,
			"session":  map[string]any{"notices": map[string]any{}}, // otherwise codex puts its warnings into the answer
		},
	}, c.StartWithin)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(result, &a); err != nil {
		// Be lenient: ignore unparsable capabilities.
		var version struct {
			Protocol int `json:"protocolVersion"`
		}
		if json.Unmarshal(result, &version) != nil {
			return a, errors.New("cannot parse the answer to initialize: does the program speak ACP?")
		}
		a = agentInfo{Protocol: version.Protocol}
	}
	if a.Protocol != protocolVersion {
		return a, fmt.Errorf("unsupported protocol version %d, expected %d", a.Protocol, protocolVersion)
	}
	return a, nil
}

// turn runs the turn, and returns the last event.
func (c *client) turn(ctx context.Context) turn.Event {
	a, err := c.initialize(ctx)
	if err != nil {
		return c.failure(err)
	}
	c.resumable = a.Capabilities.Loads || a.resumes()
	if err := c.open(ctx, a); err != nil {
		return c.failure(err)
	}
	c.prompting = true
	c.meter.begin(c.Session == "")
	result, err := c.call(ctx, "session/prompt", map[string]any{
		"sessionId": c.session,
		"prompt":    []any{map[string]any{"type": "text", "text": c.Prompt}},
	}, 0)
	var ended struct {
		Reason string          `json:"stopReason"`
		Usage  json.RawMessage `json:"usage"`
		Meta   json.RawMessage `json:"_meta"`
	}
	if err == nil && json.Unmarshal(result, &ended) != nil {
		c.unknown(string(result))
	}
	c.meter.prompt(ended.Usage, ended.Meta)
	var done turn.Event
	switch {
	case c.questionID != "":
		done = turn.Event{Kind: turn.Done} // the stop reason does not matter: the turn waits
	case err != nil:
		done = c.failure(err)
	default:
		c.listen(ctx)
		done = ending(ended.Reason, c.cancelled)
		if c.gaveUp && !c.cancelled {
			done.Failed, done.Text = true, plain.Cut(strings.TrimSpace(c.lastPiece), maxText)
		}
	}
	c.meter.bill(&done)
	return done
}

// listen processes messages after the answer to the prompt: some agents answer before their text
// is complete. It returns when no message has come for Settle, and at the latest after Linger.
func (c *client) listen(ctx context.Context) {
	over := time.Now().Add(c.Linger)
	for until := c.quietDeadline(over); time.Now().Before(until); {
		select {
		case m, ok := <-c.messages:
			if !ok {
				return
			}
			c.take(ctx, m)
			until = c.quietDeadline(over)
		case <-c.Cancel:
			return
		case <-time.After(time.Until(until)):
		}
	}
}

// quietDeadline returns the time at which the wait for messages ends if no more come. An agent that
// has said nothing since its last tool gets until over, unless it may be silent.
func (c *client) quietDeadline(over time.Time) time.Time {
	if c.questionID != "" {
		return time.Time{}
	}
	if !c.text.started || c.text.interrupted {
		if !c.MayBeSilent {
			return over
		}
	}
	if settled := time.Now().Add(c.Settle); settled.Before(over) {
		return settled
	}
	return over
}

// ending returns the last event of a turn with this stop reason. cancelled means that we
// cancelled the turn.
func ending(reason string, cancelled bool) turn.Event {
	done := turn.Event{Kind: turn.Done}
	switch {
	case cancelled:
		done.Cut = "the turn was cancelled"
	case reason == "end_turn" || reason == "":
	case reason == "max_tokens":
		done.Cut = "the answer is incomplete: the agent reached its token limit"
	case reason == "max_turn_requests":
		done.Cut = "the answer is incomplete: the agent reached its limit of requests per turn"
	case reason == "refusal":
		done.Failed, done.Text = true, "the agent refused this message"
	case reason == "cancelled":
		done.Failed, done.Text = true, "the agent itself cancelled the turn"
	default:
		done.Cut = fmt.Sprintf("the agent ended the turn with unknown stop reason %q", displayName(reason))
	}
	return done
}

// open loads the session of Settings, or begins one, and chooses its settings.
func (c *client) open(ctx context.Context, a agentInfo) error {
	params := map[string]any{"cwd": c.Dir, "mcpServers": c.Servers}
	if c.Servers == nil {
		params["mcpServers"] = []any{}
	}
	method := "session/new"
	if c.Session != "" {
		params["sessionId"] = c.Session
		switch {
		case a.resumes():
			method = "session/resume"
		case a.Capabilities.Loads:
			method = "session/load"
		default:
			return errors.New("the agent cannot load sessions")
		}
	}
	c.replaying = c.Session != ""
	defer func() { c.replaying = false }()
	result, err := c.call(ctx, method, params, c.StartWithin)
	if err != nil {
		return err
	}
	var opened struct {
		Session string `json:"sessionId"`
	}
	if err := json.Unmarshal(result, &opened); err != nil && c.Session == "" {
		return fmt.Errorf("cannot parse the answer to %s: %w", method, err)
	}
	c.session = c.Session
	if c.Session == "" {
		c.session = opened.Session
	}
	if c.session == "" {
		return fmt.Errorf("the answer to %s has no session id", method)
	}
	offered := parseOffers(result)
	c.meter.model = offered.model()
	begun := turn.Event{Kind: turn.SessionStart, Model: displayName(c.meter.model)}
	if c.resumable {
		begun.Session = c.session
	}
	c.Emit(begun)
	if method == "session/load" {
		if err := c.awaitReplay(ctx); err != nil {
			return err
		}
	}
	return c.applyOptions(ctx, offered)
}

// awaitReplay waits until the agent has repeated a whole loaded session. The agent should have
// done so before its answer, but not every agent does: gemini continues for a while. So
// awaitReplay sends a request that no agent knows, until several answers in a row have come
// without updates in between.
func (c *client) awaitReplay(ctx context.Context) error {
	for until, quiet := time.Now().Add(min(replayWithin, c.StartWithin)), 0; quiet < replayQuiet && time.Now().Before(until); {
		before := c.updates
		_, err := c.call(ctx, "_agentstateloop/ping", map[string]any{}, time.Until(until))
		if errors.Is(err, errEnded) || errors.Is(err, errCancelled) {
			return err
		}
		if quiet++; c.updates != before {
			quiet = 0
		}
		if err := c.pause(ctx, replayPause); err != nil {
			return err
		}
	}
	return nil
}

// pause processes the agent's messages for a while.
func (c *client) pause(ctx context.Context, d time.Duration) error {
	for over := time.After(d); ; {
		select {
		case m, ok := <-c.messages:
			if !ok {
				return errEnded
			}
			c.take(ctx, m)
		case <-c.Cancel:
			return errCancelled
		case <-over:
			return nil
		}
	}
}

// failure returns the last event of a turn that failed.
func (c *client) failure(err error) turn.Event {
	if errors.Is(err, errCancelled) || errors.Is(err, errEnded) && c.cancelled {
		return turn.Event{Kind: turn.Done, Cut: "the turn was cancelled"}
	}
	done := turn.Event{Kind: turn.Done, Failed: true, Text: plain.Cut(c.explain(err).Error(), maxText)}
	if _, wrong := errors.AsType[*settingError](err); wrong {
		done.Obstacle = true
		return done
	}
	if fault, ok := errors.AsType[*Fault](err); ok { // some agents pass on their provider's HTTP status
		done.Limited, done.Overload = fault.Code == http.StatusTooManyRequests, fault.Code >= http.StatusInternalServerError
	}
	return done
}

// explain returns an error in words by which package turn recognizes a refused login. For an
// agent that has ended, it adds how.
func (c *client) explain(err error) error {
	if errors.Is(err, errEnded) {
		return fmt.Errorf("%w: %s", err, c.agent.describeExit())
	}
	if fault, ok := errors.AsType[*Fault](err); ok {
		text := plain.Line(fault.Error())
		if fault.Code == codeAuthRequired {
			return fmt.Errorf("%s%s", turn.APIRefused, text)
		}
		return errors.New(text)
	}
	return err
}
