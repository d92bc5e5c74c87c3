package apirunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
	"agentstateloop/turn/box"
	"agentstateloop/turn/react"
	"agentstateloop/turn/toolserver"
)

// toolbox makes the tools of a turn.
type toolbox struct {
	loader *config.Loader
	config *config.Config
	agent  *cycle.Agent
	turn   cycle.Inside
	watch  *turnWatch // records a rest, and tells the model about missing tools
	way    box.Way    // how to confine the programs of exec
}

// allowedTools returns the tools that the cause of this turn may call, and starts the servers of
// some of them. The caller must close the sessions, even after an error. If programs cannot be
// confined, exec is not among the tools.
func (b toolbox) allowedTools(ctx context.Context, api config.API) (tools []react.Tool, sessions []*toolserver.Session, err error) {
	s, err := b.agent.Store.Read()
	if err != nil {
		return nil, nil, err
	}
	if !s.Turn.Owns(b.turn.TurnID, b.turn.Epoch) {
		return nil, nil, cycle.ErrStale
	}
	msg, _ := s.TurnMessage()
	section, names := b.toolNames(msg)
	patterns := config.ServerTools(names)
	names = slices.DeleteFunc(slices.Clone(names), config.NamesServer)
	asked := b.config.Has("api.tools." + section)
	if !asked && msg.Operator {
		patterns = config.AllTools(api.Servers)
	}
	servers := slices.DeleteFunc(slices.Clone(api.Servers), func(s toolserver.Server) bool { return !patterns.Any(s.Name) })
	local := slices.ContainsFunc(servers, func(s toolserver.Server) bool { return s.URL == "" })
	if slices.Contains(names, react.Exec) || local {
		if b.way, err = box.Find(ctx, b.agent.Turn.Self); err != nil {
			names, servers = b.withoutSandbox(err, names, servers)
		}
	}
	all, err := b.allTools(api.Programs)
	if err != nil {
		return nil, nil, err
	}
	if !asked {
		names = react.DefaultTools(msg.Operator, all)
		// Without a mesh or mail, the tools that send and ask do not exist.
		names = slices.DeleteFunc(names, func(name string) bool {
			return !slices.ContainsFunc(all, func(t react.Tool) bool { return t.Name == name })
		})
	}
	tools, err = react.Allow(all, names)
	if err != nil {
		return nil, nil, b.config.Wrong("api.tools."+section, "%v", err)
	}
	theirs, sessions := b.serverTools(ctx, servers, patterns)
	tools = append(tools, theirs...)
	for i := range tools {
		tools[i].Run = redacted(b.loader.Secrets, tools[i].Run)
	}
	return tools, sessions, nil
}

// toolNames returns the section of [api.tools] for a message, and the names in it. Turns that the
// agent planned in an operator's turn, and prompts of the clock, have the rights of the operator's
// turns, unless self or task is set.
func (b toolbox) toolNames(msg state.Message) (section string, names []string) {
	tools := b.config.File.API.Tools
	switch cause := msg.Cause(); {
	case cause == state.CauseEvent && b.config.Has("api.tools.event"):
		return "event", tools.Event
	case cause == state.CausePeer || cause == state.CauseEvent:
		return "peer", tools.Peer
	case cause == state.CauseTask && b.config.Has("api.tools.task"):
		return "task", tools.Task
	case cause == state.CauseSelf && b.config.Has("api.tools.self"):
		return "self", tools.Self
	}
	return "operator", tools.Operator
}

// toolFunc runs a tool.
type toolFunc = func(context.Context, json.RawMessage) (string, error)

// redacted removes known secrets from the result of a tool, because the result goes to the model's
// provider.
func redacted(secrets *secret.Known, run toolFunc) toolFunc {
	return func(ctx context.Context, args json.RawMessage) (string, error) {
		text, err := run(ctx, args)
		if end, ends := errors.AsType[react.Ending](err); ends {
			end.Text = secrets.Redact(end.Text)
			return "", end
		}
		if showing, shows := errors.AsType[react.FilesResult](err); shows {
			showing.Text = secrets.Redact(showing.Text)
			return "", showing
		}
		if err != nil {
			err = errors.New(secrets.Redact(err.Error()))
		}
		return secrets.Redact(text), err
	}
}

// allTools returns every tool of this agent.
func (b toolbox) allTools(programs []react.Program) ([]react.Tool, error) {
	folders := react.Folders{Workdir: b.agent.Turn.Workdir, Output: b.loader.Env("AGENTSTATELOOP_OUTPUT"), Context: b.loader.Env("AGENTSTATELOOP_CONTEXT")}
	b.watch.folders = folders
	env := b.environ()
	list, err := folders.Files()
	if err != nil {
		return nil, err
	}
	granted := b.config.ExecBox()
	granted.Self = b.agent.Turn.Self
	shell, err := react.Shell{Folders: folders, Box: granted, Way: b.way, Env: env, Timeout: config.ToolTimeout}.Tool()
	if err != nil {
		return nil, err
	}
	effects, err := b.effects(folders).Tools()
	if err != nil {
		return nil, err
	}
	all := slices.Concat(list, []react.Tool{shell}, effects)
	for _, program := range programs {
		program.Dir, program.Env, program.Pauses = folders.Workdir, env, b.pauses()
		tool, err := program.Tool()
		if err != nil {
			return nil, err
		}
		all = append(all, tool)
	}
	return all, nil
}

// environ returns the environment of the tools' programs: ours without the key and the tokens.
func (b toolbox) environ() []string {
	secrets := b.config.SecretVariables()
	return slices.DeleteFunc(slices.Clone(b.loader.Environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(secrets, name)
	})
}

// effects do the same as the commands of the same names.
func (b toolbox) effects(folders react.Folders) react.Effects {
	a, turn := b.agent, b.turn
	e := react.Effects{
		Submit: func(ctx context.Context, r react.Submission) error {
			sub := cycle.Submission{Text: r.Text}
			for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
				sub.Fields = append(sub.Fields, cycle.Field{Name: name, Value: r.Fields[name]})
			}
			return a.Submit(ctx, turn, sub)
		},
		Suspend: func(ctx context.Context, text string, patience time.Duration) (string, error) {
			return a.Suspend(ctx, turn, text, patience)
		},
		Sleep: func(ctx context.Context, d time.Duration, why string) error {
			b.watch.rests = true
			return a.Sleep(ctx, turn, d, why)
		},
		Remind: func(ctx context.Context, when, text string) (time.Time, error) {
			return a.Remind(ctx, turn, when, text)
		},
		Remember: func(ctx context.Context, text string) error { return a.Remember(ctx, turn, text) },
		Search:   func(_ context.Context, query string, n int) (string, error) { return a.SearchInside(turn, query, n) },
	}
	if a.Mail != nil {
		e.AskOperator = func(ctx context.Context, question string, options []string, patience time.Duration) (string, error) {
			return a.AskOperator(ctx, turn, cycle.OperatorQuestion{Text: question, Options: options, Patience: patience})
		}
	}
	if a.Mesh != nil {
		e.Send = func(ctx context.Context, to, text string, names []string) error {
			to, err := peerHandle(to)
			if err != nil {
				return err
			}
			list, closeAll, err := openFiles(folders, names)
			if err != nil {
				return err
			}
			defer closeAll()
			return a.Send(ctx, turn, to, text, list...)
		}
		e.Ask = func(ctx context.Context, to, text string, fields []state.ResultField, names []string, patience time.Duration) (string, error) {
			to, err := peerHandle(to)
			if err != nil {
				return "", err
			}
			list, closeAll, err := openFiles(folders, names)
			if err != nil {
				return "", err
			}
			defer closeAll()
			return a.Ask(ctx, turn, cycle.Question{To: to, Text: text, Fields: fields, Files: list, Patience: patience})
		}
	}
	return e
}

// openFiles opens the files that a model names. The caller closes them.
func openFiles(folders react.Folders, names []string) (list []files.OpenFile, closeAll func(), err error) {
	var opened []*os.File
	closeAll = func() {
		for _, f := range opened {
			f.Close()
		}
	}
	if len(names) > files.Max {
		return nil, nil, fmt.Errorf("%d files exceed the limit of %d per message", len(names), files.Max)
	}
	for _, name := range names {
		f, err := folders.Open(name)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		opened = append(opened, f)
		list = append(list, files.OpenFile{Name: filepath.Base(name), Body: f})
	}
	return list, closeAll, nil
}

// pauses let the turn wait for work started by its tools.
func (b toolbox) pauses() react.Pauses {
	return react.Pauses{
		Await: func(ctx context.Context, what, text string, peers []string, deadline time.Duration) (string, error) {
			return b.agent.AwaitReport(ctx, b.turn, cycle.Awaiting{What: what, Text: text, Peers: peers, Patience: deadline})
		},
		Withdraw: func(ctx context.Context, id, reason string) error {
			return b.agent.WithdrawReport(ctx, b.turn, id, reason)
		},
	}
}

// peerHandle parses a handle, with or without its "@".
func peerHandle(text string) (string, error) {
	handle := strings.TrimPrefix(text, "@")
	if !state.ValidHandle(handle) {
		return "", fmt.Errorf("%q is not a valid handle", text)
	}
	return handle, nil
}
