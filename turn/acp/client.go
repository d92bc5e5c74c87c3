package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/internal/secret"
	"agentstateloop/turn"
)

// The default timeouts of Settings.
const (
	defaultStart  = 2 * time.Minute // a JavaScript agent takes seconds, and longer without a network
	defaultCancel = 30 * time.Second
	defaultExit   = 3 * time.Second
)

// maxText bounds the agent's text in an event for an unrecognized message, a title or a failure,
// in bytes.
const maxText = 4 << 10

// Settings are the settings of one turn.
type Settings struct {
	Command []string // the agent's program and its arguments
	Dir     string   // the agent's working directory
	Version string   // our own version

	Session string // the session to continue; "" begins one
	Prompt  string
	Servers []Server // of tools for the agent
	Grants  turn.ACPGrants
	Options map[string]string // settings to choose for the session, by name

	// Settle, Linger and MayBeSilent are those of turn.ACPSettings.
	Settle, Linger time.Duration
	MayBeSilent    bool

	// Ask asks the operator a question with the answers turn.Allow and turn.Refuse, and returns
	// the question's id. It is called only if Grants.Ask is set.
	Ask func(ctx context.Context, text string) (id string, err error)

	// Emit receives the events, one at a time.
	Emit func(turn.Event)

	// Cancel is closed to end the turn cleanly.
	Cancel <-chan struct{}

	// StartWithin bounds the wait for each answer until the prompt is sent. CancelWithin bounds
	// the wait for the end of a cancelled turn. ExitWithin bounds the wait for the end of the
	// process after its input was closed, and again after TERM. Zero means the default.
	StartWithin, CancelWithin, ExitWithin time.Duration

	Secrets *secret.Known // kept out of crash reports; may be nil
}

// Server is a server of tools (MCP) that the agent starts.
type Server struct {
	Name    string     `json:"name"`
	Command string     `json:"command"`
	Args    []string   `json:"args"`
	Env     []Variable `json:"env"`
}

// Variable is an environment variable.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// client is one conversation with an agent.
type client struct {
	Settings
	agent    *agent
	out      *writer
	messages chan message // closed at the end of the agent's output

	next      int // number of the last request of ours
	session   string
	resumable bool // a later process can continue the session
	replaying bool // the session is being loaded: updates repeat earlier turns
	updates   int  // number of updates received
	cancelled bool // session/cancel was sent
	prompting bool // the prompt was sent

	questionID string // the id of the question to the operator, or ""
	once       map[string]int
	denied     map[string]bool

	calls tools
	meter meter
	text  transcript

	lastPiece string // the last piece of the agent's text
	gaveUp    bool   // the agent reported that its turn failed
}

// errCancelled means that the turn was cancelled before the prompt was sent.
var errCancelled = errors.New("cancelled")

// errEnded means that the agent's output ended before its answer.
var errEnded = errors.New("the agent ended without an answer")

// Run runs the turn, and returns when the agent's process has ended. The last event, a Done,
// reports any failure. The error is for a program that could not be started.
func Run(ctx context.Context, s Settings) error {
	c, err := start(ctx, s)
	if err != nil {
		return err
	}
	done := c.turn(ctx)
	c.Emit(done)
	c.end()
	return nil
}

// Probe starts the agent, asks for its description, and ends it.
func Probe(ctx context.Context, s Settings) (turn.ACPAgent, error) {
	s.Emit = func(turn.Event) {}
	c, err := start(ctx, s)
	if err != nil {
		return turn.ACPAgent{}, err
	}
	defer c.end()
	about, err := c.initialize(ctx)
	if err != nil {
		return turn.ACPAgent{}, c.explain(err)
	}
	return about.agent(), nil
}

// withDefaults returns s with the defaults for unset timeouts.
func (s Settings) withDefaults() Settings {
	if s.StartWithin <= 0 {
		s.StartWithin = defaultStart
	}
	if s.CancelWithin <= 0 {
		s.CancelWithin = defaultCancel
	}
	if s.ExitWithin <= 0 {
		s.ExitWithin = defaultExit
	}
	return s
}

// start starts the agent.
func start(ctx context.Context, s Settings) (*client, error) {
	s = s.withDefaults()
	a, err := startAgent(s)
	if err != nil {
		return nil, err
	}
	c := &client{
		Settings: s, agent: a, out: newWriter(a.stdin, s.Secrets), messages: make(chan message),
		once: map[string]int{}, denied: map[string]bool{}, calls: tools{open: map[string]call{}},
	}
	for _, identity := range s.Grants.Once {
		c.once[identity]++
	}
	for _, identity := range s.Grants.Refused {
		c.denied[identity] = true
	}
	go s.Secrets.Guarded(func() {
		defer close(c.messages)
		readMessages(a.stdout, func(m message) bool {
			select {
			case c.messages <- m:
				return true
			case <-a.quit:
				return false
			}
		})
	})()
	return c, nil
}

// end ends the agent's process.
func (c *client) end() {
	c.out.close()
	stopNow := c.Cancel
	if c.cancelled {
		stopNow = nil // the agent knows already
	}
	c.agent.end(c.ExitWithin, c.messages, stopNow)
}

// call sends a request, and returns the result in its answer. While it waits, it processes the
// agent's other messages. within bounds the wait. If within is 0, the wait is unbounded until the
// turn is cancelled; then CancelWithin bounds it.
func (c *client) call(ctx context.Context, method string, params any, within time.Duration) (json.RawMessage, error) {
	c.next++
	id := strconv.Itoa(c.next)
	if err := c.out.send(request{jsonrpc, c.next, method, params}); err != nil {
		return nil, err
	}
	var late <-chan time.Time
	if within > 0 {
		late = time.After(within)
	}
	cancel := c.Cancel
	for {
		if c.cancelled && c.prompting && within == 0 {
			within = c.CancelWithin
			late = time.After(within)
		}
		select {
		case m, ok := <-c.messages:
			switch {
			case !ok:
				return nil, errEnded
			case m.isResponse() && string(m.ID) == id && m.Error != nil:
				return nil, m.Error
			case m.isResponse() && string(m.ID) == id:
				return m.Result, nil
			}
			c.take(ctx, m)
		case <-cancel:
			cancel = nil
			if !c.prompting {
				return nil, errCancelled
			}
			c.cancel()
		case <-late:
			return nil, fmt.Errorf("the agent did not answer %s within %v", method, within)
		}
	}
}

// cancel asks the agent to end the turn, once.
func (c *client) cancel() {
	if c.cancelled {
		return
	}
	c.cancelled = true
	_ = c.out.send(request{jsonrpc, nil, "session/cancel", map[string]any{"sessionId": c.session}})
}

// take processes a message that is not the awaited answer.
func (c *client) take(ctx context.Context, m message) {
	switch {
	case m.skipped > 0:
		c.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("skipped a message of %d bytes: the limit is %d", m.skipped, maxMessage)})
	case m.raw != nil:
		c.unknown(string(m.raw))
	case m.Method == "session/update":
		c.updates++
		c.update(m.Params)
	case m.isRequest() && m.Method == "session/request_permission":
		c.answer(m, c.permit(ctx, m.Params))
	case m.isRequest():
		c.refuse(m, &Fault{Code: codeNoMethod, Message: "method not found: " + plain.Line(plain.Cut(m.Method, 100))})
		c.unknown("request " + m.Method)
	case m.isResponse() || m.Error != nil:
		c.unknown("answer to an unknown request: " + string(m.ID))
	default:
		c.unknown("notification " + m.Method)
	}
}

func (c *client) answer(m message, result any) {
	if err := c.out.send(response{Version: jsonrpc, ID: m.ID, Result: result}); err != nil {
		c.unknown(err.Error())
	}
}

func (c *client) refuse(m message, why *Fault) {
	if err := c.out.send(response{Version: jsonrpc, ID: m.ID, Error: why}); err != nil {
		c.unknown(err.Error())
	}
}

// unknown emits an Unknown event.
func (c *client) unknown(text string) {
	c.Emit(turn.Event{Kind: turn.Unknown, Text: plain.Text(plain.Cut(text, maxText))})
}
