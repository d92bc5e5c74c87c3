package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

// stallAfter is how long an API may say nothing. A model on the user's own
// machine may read a long prompt for minutes.
const stallAfter = 5 * time.Minute

// restFor is how long an agent rests that has not said otherwise.
const restFor = time.Minute

var errTooMuch = errors.New("it is no regular file, or too long")

func (p *program) reactCommand() *cli.Command {
	return &cli.Command{
		Name: config.APICommand, Hidden: true, Action: p.react,
		Flags: []cli.Flag{
			&cli.TimestampFlag{Name: "now", Layout: time.RFC3339, Usage: "the time of the demo's clock"},
			&cli.BoolFlag{Name: "summary", Usage: "answer standard input by a summary"},
		},
	}
}

// react runs the loop in the turn that it was started in. What happens is told
// on stdout; an end that is no good one, by the exit code, too.
func (p *program) react(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	begun := time.Now()
	if at := c.Timestamp("now"); at != nil {
		p.loader.Now = func() time.Time { return *at }
	}
	a, in, err := p.inside(c)
	if err != nil {
		return err
	}
	if a.Turn == nil || a.Turn.Runner != turn.API {
		return terminal.Usagef("", `%s is for agentstateloop's own use, with runner = "api"`, config.APICommand)
	}
	cfg, err := p.loader.Read(a.Config)
	if err != nil {
		return err
	}
	w := &wake{p: p, agent: a, in: in, config: cfg, begun: begun}
	if c.Bool("summary") {
		return w.summarise(c.Context)
	}
	loop, err := w.loop(c.Context)
	if err != nil {
		w.emit(turn.Event{Kind: turn.Done, Failed: true, Text: err.Error()})
		return toldError{}
	}
	defer loop.Steps.Close()
	message, err := io.ReadAll(p.stdin)
	if err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	if err := loop.Run(c.Context, strings.TrimSpace(string(message)), p.loader.Env("AGENTSTATELOOP_RESUMED") == ""); err != nil {
		return toldError{}
	}
	return nil
}

// toldError is an end that was told on stdout already, as an event.
type toldError struct{}

func (toldError) Error() string { return "" }

// wake is one run of the loop, and the agent that it runs for.
type wake struct {
	p      *program
	agent  *cycle.Agent
	in     cycle.Inside
	config *config.Config
	begun  time.Time
	slept  bool // the agent has said how long it wishes to rest
}

// dir is the folder of the attempt.
func (w *wake) dir() string { return filepath.Dir(w.p.loader.Env("AGENTSTATELOOP_CONTEXT")) }

// loop makes the loop of what the configuration says, and of what the message
// allows.
func (w *wake) loop(ctx context.Context) (*react.Loop, error) {
	made, err := w.p.loader.API(w.config)
	if err != nil {
		return nil, err
	}
	model, err := w.model(ctx, made)
	if err != nil {
		return nil, err
	}
	tools, err := w.tools(made.Programs)
	if err != nil {
		return nil, err
	}
	system, err := os.ReadFile(filepath.Join(w.dir(), "context", "system.md"))
	if err != nil {
		return nil, fmt.Errorf("read prompt: %w", err)
	}
	brief, err := w.agent.SummaryPrompt()
	if err != nil {
		return nil, err
	}
	steps, err := react.OpenSteps(w.dir())
	if err != nil {
		return nil, err
	}
	s := w.config.File.API
	return &react.Loop{
		Settings: react.Settings{
			Model:     model,
			Names:     react.Names{Usual: s.Model, Low: s.LowModel, Summary: s.SummaryModel},
			System:    string(system),
			Brief:     brief,
			Tools:     tools,
			Steps:     steps,
			Window:    s.ContextWindow,
			MaxOutput: s.MaxOutput,
			MaxCalls:  s.MaxCalls,
			MaxTools:  s.MaxTools,
			Deadline:  w.begun.Add(w.agent.Turn.Timeout),
		},
		Callbacks: react.Callbacks{
			Emit:  w.emit,
			Check: w.look,
			Spent: w.spent,
			Rest:  func(ctx context.Context) error { return w.agent.Sleep(ctx, w.in, restFor) },
		},
	}, nil
}

// model is the API, with its key. A key that cannot be read is told like one
// that was refused (DESIGN 12).
func (w *wake) model(ctx context.Context, made config.API) (react.Model, error) {
	key := ""
	if made.Key != nil {
		var err error
		if key, err = made.Key(ctx); err != nil {
			w.emit(turn.Event{Kind: turn.Error, Text: turn.APIRefused + err.Error()})
			return nil, err
		}
	}
	return made.Model(key, stallAfter), nil
}

// emit tells one event on stdout.
func (w *wake) emit(e turn.Event) {
	e.Text, e.Cut = w.p.loader.Secrets.Redact(e.Text), w.p.loader.Secrets.Redact(e.Cut)
	line, err := json.Marshal(e)
	if err != nil {
		return // no Event is like that
	}
	w.p.out.Printf("%s\n", line)
}

// look says whether the turn is still ours and wanted, and what else there is.
func (w *wake) look(context.Context) (react.Outlook, error) {
	s, err := w.agent.Store.Read()
	if err != nil {
		return react.Outlook{}, err
	}
	if !s.Turn.Owns(w.in.TurnID, w.in.Epoch) {
		return react.Outlook{}, cycle.ErrStale
	}
	var o react.Outlook
	if s.Turn.Stop != "" {
		o.Over = "stopped"
	}
	if err := w.lookAtMoney(&o); err != nil {
		return o, err
	}
	if n := waiting(s); n > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("Messages that wait in your inbox until this turn ends: %d.", n))
	}
	if w.slept && s.SleepUntil.After(w.p.loader.Now()) {
		o.Notes = append(o.Notes, "You have asked to rest: end this turn as soon as its work is done.")
	}
	return o, nil
}

// waiting counts the messages that wait behind the one of this turn.
func waiting(s state.State) int {
	n := 0
	for _, m := range s.Inbox {
		if m.Status == state.Queued || m.Status == state.Deferred {
			n++
		}
	}
	return n
}

// tools are those that the cause of this turn may call.
func (w *wake) tools(programs []react.Program) ([]react.Tool, error) {
	s, err := w.agent.Store.Read()
	if err != nil {
		return nil, err
	}
	if !s.Turn.Owns(w.in.TurnID, w.in.Epoch) {
		return nil, cycle.ErrStale
	}
	msg, _ := s.TurnMessage()
	all, err := w.allTools(programs)
	if err != nil {
		return nil, err
	}
	section, names := "peer", w.config.File.API.Tools.Peer
	if msg.Operator {
		section, names = "operator", w.config.File.API.Tools.Operator
	}
	if !w.config.Has("api.tools." + section) {
		names = react.DefaultTools(msg.Operator, all)
		// Without a mesh there is nobody to ask.
		names = slices.DeleteFunc(names, func(name string) bool {
			return !slices.ContainsFunc(all, func(t react.Tool) bool { return t.Name == name })
		})
	}
	allowed, err := react.Allow(all, names)
	if err != nil {
		return nil, w.config.Wrong("api.tools."+section, "%v", err)
	}
	for i := range allowed {
		allowed[i].Run = w.redacted(allowed[i].Run)
	}
	return allowed, nil
}

// redacted is a tool that tells the model no secret of ours, whatever it read.
func (w *wake) redacted(run func(context.Context, json.RawMessage) (string, error)) func(context.Context, json.RawMessage) (string, error) {
	return func(ctx context.Context, args json.RawMessage) (string, error) {
		text, err := run(ctx, args)
		if err != nil {
			err = errors.New(w.p.loader.Secrets.Redact(err.Error()))
		}
		return w.p.loader.Secrets.Redact(text), err
	}
}

// allTools are all that there are here.
func (w *wake) allTools(programs []react.Program) ([]react.Tool, error) {
	rooms := react.Folders{Workdir: w.agent.Turn.Workdir, Output: w.p.loader.Env("AGENTSTATELOOP_OUTPUT"), Context: w.p.loader.Env("AGENTSTATELOOP_CONTEXT")}
	env := w.environ()
	files, err := rooms.Files()
	if err != nil {
		return nil, err
	}
	shell, err := react.Shell{Folders: rooms, Self: w.agent.Turn.Self, Env: env, Path: w.p.loader.Env("PATH"), Timeout: config.ToolTimeout}.Tool()
	if err != nil {
		return nil, err
	}
	effects, err := w.effects().Tools()
	if err != nil {
		return nil, err
	}
	all := slices.Concat(files, []react.Tool{shell}, effects)
	for _, program := range programs {
		program.Dir, program.Env = rooms.Workdir, env
		tool, err := program.Tool()
		if err != nil {
			return nil, err
		}
		all = append(all, tool)
	}
	return all, nil
}

// environ is what the programs of tools get: ours, without the key.
func (w *wake) environ() []string {
	key := w.config.File.API.KeyEnv
	return slices.DeleteFunc(slices.Clone(w.p.loader.Environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return key != "" && name == key
	})
}

// effects are what the commands of the same names do.
func (w *wake) effects() react.Effects {
	a, in := w.agent, w.in
	e := react.Effects{
		Submit: func(ctx context.Context, fields map[string]string, text string) error {
			sub := cycle.Submission{Text: text}
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				sub.Fields = append(sub.Fields, cycle.Field{Name: name, Value: fields[name]})
			}
			return a.Submit(ctx, in, sub)
		},
		Sleep: func(ctx context.Context, d time.Duration) error {
			w.slept = true
			return a.Sleep(ctx, in, d)
		},
		Remember: func(ctx context.Context, text string) error { return a.Remember(ctx, in, text) },
		Search:   func(_ context.Context, query string, n int) (string, error) { return a.SearchHistory(query, n) },
	}
	if a.Mesh != nil {
		e.Send = func(ctx context.Context, to, text string) error {
			to, err := peerHandle(to)
			if err != nil {
				return err
			}
			return a.Send(ctx, in, to, text)
		}
		e.Ask = func(ctx context.Context, to, text string, patience time.Duration) (string, error) {
			to, err := peerHandle(to)
			if err != nil {
				return "", err
			}
			return a.Ask(ctx, in, to, text, patience)
		}
	}
	return e
}

// peerHandle reads a handle, with or without its "@".
func peerHandle(text string) (string, error) {
	handle := strings.TrimPrefix(text, "@")
	if !state.ValidHandle(handle) {
		return "", fmt.Errorf("%q is not a valid handle", text)
	}
	return handle, nil
}
