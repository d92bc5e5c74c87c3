// Package apirunner is the hidden process behind runner = "api": our own loop as the agent of an
// attempt (docs/decisions/0010-built-in-loop.md). It reads the message from standard input, calls
// the model and the tools, and prints events, one line of JSON each.
package apirunner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
	"agentstateloop/turn/toolserver"
)

// stallAfter is how long an API may be silent. A model on the user's own machine may take minutes
// to read a long prompt.
const stallAfter = 5 * time.Minute

// defaultRest is the rest of an agent that did not specify a duration.
const defaultRest = time.Minute

// ErrReported means that the loop failed and has reported the reason in an event.
var ErrReported = errors.New("the loop has reported its failure as an event")

// Process holds the environment of the loop: its arguments, streams and clock.
type Process struct {
	Loader *config.Loader // for the environment, the clock and the secrets
	Stdin  io.Reader
	Stdout io.Writer
	Begun  time.Time // by the machine's clock

	Fallback int  // number of the fallback that the loop runs as, from 1; 0 for the usual runner
	Low      bool // use the cheaper model, even if enough money is left

	Model string // replaces the usual model; "" for the usual one
}

// Runner runs the loop for one attempt.
type Runner struct {
	Process
	agent  *cycle.Agent
	turn   cycle.Inside
	config *config.Config
	events events

	servers []*toolserver.Session // running servers
}

// New returns the runner of an attempt of agent, which must have runner = "api".
func New(p Process, agent *cycle.Agent, in cycle.Inside) (*Runner, error) {
	c, err := p.Loader.Read(agent.Config)
	if err != nil {
		return nil, err
	}
	if p.Fallback < 0 || p.Fallback > len(c.File.Turn.Fallback) {
		return nil, ErrNotAPI
	}
	if p.Fallback > 0 {
		c = c.Fallback(p.Fallback)
	}
	if c.File.Turn.Runner != turn.API {
		return nil, ErrNotAPI
	}
	c.File.API.Model = cmp.Or(p.Model, c.File.API.Model)
	if p.Low {
		c.File.API.Model = cmp.Or(c.File.API.LowModel, c.File.API.Model)
	}
	return &Runner{Process: p, agent: agent, turn: in, config: c, events: events{p.Stdout, p.Loader.Secrets}}, nil
}

// ErrNotAPI means that the configuration does not run the built-in loop.
var ErrNotAPI = errors.New("the runner is not api")

// Turn runs the turn for the message on standard input.
func (r *Runner) Turn(ctx context.Context) error {
	defer r.closeServers()
	loop, err := r.loop(ctx)
	if err != nil {
		r.events.fail(err)
		return ErrReported
	}
	defer loop.Steps.Close()
	message, err := io.ReadAll(r.Stdin)
	if err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	fresh := r.Loader.Env("AGENTSTATELOOP_RESUMED") == ""
	if err := loop.Run(ctx, strings.TrimSpace(string(message)), fresh); err != nil {
		return ErrReported
	}
	return nil
}

// loop creates the loop from the configuration, with the tools that the cause of the turn allows.
func (r *Runner) loop(ctx context.Context) (*react.Loop, error) {
	api, err := r.Loader.API(r.config)
	if err != nil {
		return nil, err
	}
	model, err := r.model(ctx, api)
	if err != nil {
		return nil, err
	}
	watch := &turnWatch{agent: r.agent, turn: r.turn, now: r.Loader.Now}
	tools, servers, err := toolbox{loader: r.Loader, config: r.config, agent: r.agent, turn: r.turn, watch: watch}.allowedTools(ctx, api)
	r.servers = servers
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(r.Loader.Env("AGENTSTATELOOP_CONTEXT")) // of the attempt
	system, err := osfile.ReadFile(filepath.Join(folder, "context", "system.md"), 16<<20)
	if err != nil {
		return nil, fmt.Errorf("read prompt: %w", err)
	}
	brief, err := r.agent.SummaryPrompt()
	if err != nil {
		return nil, err
	}
	steps, err := react.OpenSteps(folder)
	if err != nil {
		return nil, err
	}
	st, err := r.agent.Store.Read()
	if err != nil {
		return nil, err
	}
	msg, _ := st.TurnMessage()
	s := r.config.File.API
	return &react.Loop{
		Settings: react.Settings{
			Model:     model,
			Names:     react.Names{Usual: s.Model, Low: s.LowModel, Summary: s.SummaryModel},
			System:    string(system),
			Brief:     brief,
			Tools:     tools,
			Steps:     steps,
			Images:    &react.Images{Folders: watch.folders, Sees: r.config.Sees},
			Shape:     r.config.Shape(),
			Lessons:   lessons{r.agent.Store.Dir, api.Address()},
			Window:    s.ContextWindow,
			MaxOutput: s.MaxOutput,
			MaxCalls:  s.MaxCalls,
			MaxTools:  s.MaxTools,
			Deadline:  r.Begun.Add(r.agent.Turn.Timeout),

			MayBeSilent: msg.MayBeSilent(),
		},
		Callbacks: react.Callbacks{
			Emit:  r.events.emit,
			Check: watch.check,
			Spent: watch.recordSpending,
			Rest:  r.rest,
			Shorter: func(bytes int) (string, error) {
				return r.agent.ShorterPrompt(msg.Key, bytes)
			},
			Finish: func(ctx context.Context) error { return r.agent.Finish(ctx, r.turn) },
		},
	}, nil
}

// rest puts an agent to rest that did not specify a duration. If [api] rest is set, the agent wakes
// after that time and gets a turn.
func (r *Runner) rest(ctx context.Context) error {
	d := time.Duration(r.config.File.API.Rest)
	return r.agent.Rest(ctx, r.turn, cmp.Or(d, defaultRest), d > 0)
}

// model returns the API with its key. It reports an unreadable key like a key that the provider
// refuses.
func (r *Runner) model(ctx context.Context, api config.API) (react.Model, error) {
	key := ""
	if api.Key != nil {
		var err error
		if key, err = api.Key(ctx); err != nil {
			r.events.emit(turn.Event{Kind: turn.Error, Text: turn.APIRefused + err.Error()})
			return nil, err
		}
	}
	return api.Model(key, stallAfter), nil
}

// events prints events with secrets redacted.
type events struct {
	out     io.Writer
	secrets *secret.Known
}

func (e events) emit(event turn.Event) {
	event.Text, event.Cut = e.secrets.Redact(event.Text), e.secrets.Redact(event.Cut)
	line, err := json.Marshal(event)
	if err != nil {
		return // every Event can be marshaled
	}
	fmt.Fprintf(e.out, "%s\n", line)
}

// fail reports that the loop could not start.
func (e events) fail(err error) {
	e.emit(turn.Event{Kind: turn.Done, Failed: true, Text: err.Error()})
}

// turnWatch watches the agent's state while the turn runs.
type turnWatch struct {
	agent *cycle.Agent
	turn  cycle.Inside
	now   func() time.Time
	rests bool // the agent has requested a rest of a given duration

	folders react.Folders // the folders the model may see

	notes []string // notes for the model about granted tools that are unavailable
}

// check reports whether the turn is still ours and may continue, with notes for the model's next
// request.
func (l *turnWatch) check(context.Context) (react.CheckResult, error) {
	s, err := l.agent.Store.Read()
	if err != nil {
		return react.CheckResult{}, err
	}
	if !s.Turn.Owns(l.turn.TurnID, l.turn.Epoch) {
		return react.CheckResult{}, cycle.ErrStale
	}
	var o react.CheckResult
	if s.Turn.Stop != "" {
		o.Over = "stopped"
	}
	if err := l.checkMoney(&o); err != nil {
		return o, err
	}
	o.Notes = append(o.Notes, l.notes...)
	if n := waiting(s); n > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("Messages waiting in your inbox until this turn ends: %d.", n))
	}
	if l.rests && s.SleepUntil.After(l.now()) {
		o.Notes = append(o.Notes, "You asked to rest: end this turn as soon as its work is done.")
	}
	return o, nil
}

// waiting counts the messages queued behind the one of this turn. It does not count turns that the
// agent planned, or prompts of the clock.
func waiting(s state.State) int {
	n := 0
	for _, m := range s.Inbox {
		if m.ByItself() || m.Held {
			continue
		}
		if m.Status == state.Queued || m.Status == state.Deferred {
			n++
		}
	}
	return n
}

// checkMoney ends the turn when the money is used up, and selects the cheaper model when money is
// short.
func (l *turnWatch) checkMoney(o *react.CheckResult) error {
	money, err := l.agent.Allowance(l.turn)
	if err != nil || !money.Limited {
		return err
	}
	if money.Left == 0 && o.Over == "" {
		o.Over = money.What + " is used up"
	}
	if money.Tier != state.TierNormal {
		o.Low = true
		o.Notes = append(o.Notes, fmt.Sprintf("Money is short (%s): you have half as many calls, and each answer can be half as long. Do the most important work first, and be brief.", money.Tier))
	}
	return nil
}

// recordSpending records the cost of a request under the id of the request, so that it counts once.
func (l *turnWatch) recordSpending(ctx context.Context, e react.Expense) error {
	return l.agent.Spend(ctx, l.turn, state.Spending{
		ID:     fmt.Sprintf("%s.%d.%d", l.turn.TurnID, l.turn.Epoch, e.Number),
		Model:  e.Model,
		Tokens: state.Tokens(e.Usage),
	}, e.CostUSD)
}

// Summary asks the summary model to summarize standard input, without tools, and prints events like
// Turn. `compact` uses it. The cost is not recorded for any turn, so the last event includes it.
func (r *Runner) Summary(ctx context.Context) error {
	loop, text, err := r.summaryLoop(ctx)
	if err != nil {
		r.events.fail(err)
		return ErrReported
	}
	if loop.Summary(ctx, text) != nil {
		return ErrReported
	}
	return nil
}

// summaryLoop returns the loop for the summary, and the text to summarize.
func (r *Runner) summaryLoop(ctx context.Context) (*react.Loop, string, error) {
	api, err := r.Loader.API(r.config)
	if err != nil {
		return nil, "", err
	}
	model, err := r.model(ctx, api)
	if err != nil {
		return nil, "", err
	}
	text, err := io.ReadAll(r.Stdin)
	if err != nil {
		return nil, "", fmt.Errorf("read the text to summarize: %w", err)
	}
	s := r.config.File.API
	names := react.Names{Usual: s.Model, Summary: s.SummaryModel}
	r.events.emit(turn.Event{Kind: turn.SessionStart, Model: cmp.Or(names.Summary, names.Usual)})
	return &react.Loop{
		Settings: react.Settings{
			Model: model, Names: names, MaxOutput: s.MaxOutput, Window: s.ContextWindow,
			Shape: r.config.Shape(), Lessons: lessons{r.agent.Store.Dir, api.Address()},
			Deadline: r.Begun.Add(min(r.agent.Turn.Timeout, cycle.SummaryTimeout)),
		},
		Callbacks: react.Callbacks{
			Emit:  r.events.emit,
			Check: func(context.Context) (react.CheckResult, error) { return react.CheckResult{}, nil },
			Spent: func(context.Context, react.Expense) error { return nil },
		},
	}, string(text), nil
}
