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

// The times that Settings bound.
const (
	defaultStart  = 2 * time.Minute // an agent of JavaScript takes seconds, and one without a network waits
	defaultCancel = 30 * time.Second
	defaultExit   = 3 * time.Second
)

// maxText bounds, in bytes, what an event keeps of something that was not understood.
const maxText = 4 << 10

// Settings are those of one turn.
type Settings struct {
	Command []string // the agent's program, and its arguments
	Dir     string   // where it works
	Version string   // of ours

	Session string // of the agent, to continue; "" begins one
	Prompt  string
	Servers []Server // of tools, that the agent shall use
	Grants  turn.ACPGrants
	Options map[string]string // the settings of the session that are chosen, by name

	// Settle, Linger and MayBeSilent are those of turn.ACPSettings.
	Settle, Linger time.Duration
	MayBeSilent    bool

	// Ask puts a question to the operator, with the answers turn.Allow and
	// turn.Refuse, and returns its id. It is not called unless Grants.Ask is set.
	Ask func(ctx context.Context, text string) (id string, err error)

	// Emit takes the events, one at a time.
	Emit func(turn.Event)

	// Cancel is closed when the turn is to end in order.
	Cancel <-chan struct{}

	// Start bounds the wait for each answer until the prompt is sent, Cancel the wait
	// for the end of a turn that was cancelled, and Exit the wait for the process to
	// end after its input was closed, and again after TERM. Zero means the default.
	StartWithin, CancelWithin, ExitWithin time.Duration

	Secrets *secret.Known // kept out of the report of a crash; nil: none are known
}

// Server is a server of tools (MCP) that the agent starts.
type Server struct {
	Name    string     `json:"name"`
	Command string     `json:"command"`
	Args    []string   `json:"args"`
	Env     []Variable `json:"env"`
}

// Variable is one of the environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// client is one conversation with an agent.
type client struct {
	Settings
	agent    *agent
	out      *writer
	messages chan message // closed when the agent has said its last

	next      int // number of the last request of ours
	session   string
	keeps     bool // the session can be continued in a later process
	replaying bool // the session is being loaded: what comes was said before
	heard     int  // how many updates came
	cancelled bool // session/cancel was sent
	prompting bool // the prompt was sent

	asked  string // the question that was put to the operator, or ""
	once   map[string]int
	denied map[string]bool

	calls tools
	meter meter
	said  transcript

	last   string // that the agent has said, one piece
	gaveUp bool   // it says itself that its turn has failed
}

// errCancelled means that the turn was to end before the prompt was sent.
var errCancelled = errors.New("cancelled")

// errEnded means that the agent said its last while an answer was awaited.
var errEnded = errors.New("the agent ended without an answer")

// Run runs the turn, and returns when the agent's process has ended. What went wrong is
// in the last event, a Done. The error is for a program that could not be started.
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

// Probe starts the agent, asks what it is, and ends it.
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

// withDefaults returns s with the default in place of each time that is not set.
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
	hurry := c.Cancel
	if c.cancelled {
		hurry = nil // it is known
	}
	c.agent.end(c.ExitWithin, c.messages, hurry)
}

// call sends a request, and returns the result of its answer. Meanwhile it takes in what
// else the agent says. within bounds the wait; 0 is not bounded, but once the turn is to
// be cancelled CancelWithin bounds it.
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
			return nil, fmt.Errorf("the agent has not answered %s within %v", method, within)
		}
	}
}

// cancel asks the agent to end the turn.
func (c *client) cancel() {
	if c.cancelled {
		return
	}
	c.cancelled = true
	_ = c.out.send(request{jsonrpc, nil, "session/cancel", map[string]any{"sessionId": c.session}})
}

// take takes in a message that is not the answer that is awaited.
func (c *client) take(ctx context.Context, m message) {
	switch {
	case m.fat > 0:
		c.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("the agent sent a message of %d bytes, which was skipped", m.fat)})
	case m.raw != nil:
		c.unknown(string(m.raw))
	case m.Method == "session/update":
		c.heard++
		c.update(m.Params)
	case m.isRequest() && m.Method == "session/request_permission":
		c.answer(m, c.permit(ctx, m.Params))
	case m.isRequest():
		c.refuse(m, &Fault{Code: codeNoMethod, Message: "method not found: " + plain.Line(plain.Cut(m.Method, 100))})
		c.unknown("request " + m.Method)
	case m.isResponse() || m.Error != nil:
		c.unknown("an answer to a request that was not made: " + string(m.ID))
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

// unknown tells of something that was not understood.
func (c *client) unknown(text string) {
	c.Emit(turn.Event{Kind: turn.Unknown, Text: plain.Text(plain.Cut(text, maxText))})
}
