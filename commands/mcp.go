package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/mcpserver"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

// mcpOptions are the flags of mcp.
type mcpOptions struct{ approve bool }

func mcpCommand(p *program) *cli.Command {
	var o mcpOptions
	return &cli.Command{
		Name:  turn.ToolServerCommand,
		Usage: "serve the commands of this group as MCP tools",
		Description: `An MCP server on standard input and output, for the agent inside its turn. Its
tools do the same as the commands: submit_result, ask, ask_operator, send,
sleep, remind, remember and search_history. With [turn] mcp the runners claude,
codex, gemini and acp start it for each turn; any other client can start it too.
It ends when its input ends.

Outside a turn it lists its tools, but each call is an error.

Example:
  codex exec -c 'mcp_servers.agent.command="agentstateloop"' \
    -c 'mcp_servers.agent.args=["mcp"]' "remember that it rained"`,
		Flags: []cli.Flag{
			switchFlag(&o.approve, turn.ApproveFlag, "also answer claude's permission requests ([turn] approve)"),
		},
		Action: p.action(0, 0, o.run),
	}
}

func (o *mcpOptions) run(c *call) error {
	if terminal.NewAsker(c.stdin, &c.out, nil).CanAsk() {
		return terminal.Usagef("configure it as a stdio server in the MCP client; [turn] mcp does that for the runners claude, codex, gemini and acp",
			"%s speaks the Model Context Protocol with a program, not with a person", c.helpName())
	}
	caller := &mcpCaller{call: c}
	tools, err := caller.effects().Tools()
	if err != nil {
		return err
	}
	for i := range tools {
		tools[i].Run = explainErrors(c.loader.Secrets, tools[i].Run)
	}
	if o.approve {
		tools = append(tools, caller.approveTool())
	}
	server := mcpserver.Server{Name: name, Version: c.build.version(), Tools: tools, Instructions: caller.instructions(), Secrets: c.loader.Secrets}
	return server.Serve(c.ctx, c.stdin, c.out.Stdout)
}

// explainErrors wraps a tool. It turns an error into the output of the command with the same name,
// and redacts known secrets in the tool's output, because all output goes to the model's
// provider.
func explainErrors(secrets *secret.Known, run func(context.Context, json.RawMessage) (string, error)) func(context.Context, json.RawMessage) (string, error) {
	return func(ctx context.Context, args json.RawMessage) (text string, err error) {
		defer func() {
			if v := recover(); v != nil {
				text, err = "", errors.New(secrets.Redact(fmt.Sprintf("internal: %v\nhint: nothing recorded is lost; please report this", v)))
			}
		}()
		text, err = run(ctx, args)
		if end, ends := errors.AsType[react.Ending](err); ends {
			end.Text = secrets.Redact(end.Text)
			return "", end
		}
		if err == nil {
			return secrets.Redact(text), nil
		}
		words := err.Error()
		if hint := hintOf(err); hint != "" {
			words += "\nhint: " + hint
		}
		return "", errors.New(secrets.Redact(words))
	}
}

// mcpCaller acts for the tools, in the turn that started the server.
type mcpCaller struct {
	*call
	loading sync.Mutex
}

// approval is the decision about a tool call in the format that claude reads.
type approval struct {
	Behavior  string          `json:"behavior"` // allow or deny
	Input     json.RawMessage `json:"updatedInput,omitempty"`
	Message   string          `json:"message,omitempty"`
	Interrupt bool            `json:"interrupt,omitempty"` // ends the run of claude
}

// approveTool returns the tool that claude calls to ask for permission. It ignores unknown
// fields, which a later version of claude may send.
func (m *mcpCaller) approveTool() react.Tool {
	return react.Tool{
		Name:        turn.ApproveTool,
		Description: "Decides whether a tool may be called. Your program calls it; you need not.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"tool_name":{"type":"string"},"input":{"type":"object"}},"required":["tool_name","input"]}`),
		Run: func(ctx context.Context, args json.RawMessage) (string, error) {
			var asked struct {
				Tool  string          `json:"tool_name"`
				Input json.RawMessage `json:"input"`
			}
			if err := json.Unmarshal(args, &asked); err != nil || asked.Tool == "" || len(asked.Input) == 0 {
				return "", errors.New("tool_name or input is missing")
			}
			text, err := json.Marshal(m.approve(ctx, asked.Tool, asked.Input))
			return string(text), err
		},
	}
}

// approve decides a request for permission. If it cannot decide, it denies the request.
func (m *mcpCaller) approve(ctx context.Context, tool string, input json.RawMessage) approval {
	var p cycle.Permission
	err := m.act(func(t turnActions) (err error) { p, err = t.permit(ctx, tool, input); return err })
	switch {
	case err != nil:
		return approval{Behavior: "deny", Message: m.loader.Secrets.Redact(err.Error())}
	case p.Decision == turn.PermissionUsed:
		return approval{Behavior: "allow", Input: input}
	}
	return approval{Behavior: "deny", Message: p.Why, Interrupt: p.Decision == turn.PermissionAsked}
}

// instructions returns the server's instructions for the model.
func (m *mcpCaller) instructions() string {
	if _, err := m.inside(); err != nil {
		return "These tools work only inside a turn that agentStateLoop has started. There is none now: each call is an error."
	}
	text := "Tools for your turn: to set its result, to ask and inform others, to rest, and to remember. Each works like the agentstateloop command."
	for _, folder := range []struct{ variable, what string }{
		{"AGENTSTATELOOP_OUTPUT", "Files that you write into %s are sent with the answer."},
		{"AGENTSTATELOOP_CONTEXT", "The message and its attachments are in %s."},
	} {
		if path := m.loader.Env(folder.variable); path != "" {
			text += " " + fmt.Sprintf(folder.what, path)
		}
	}
	return text
}

// act performs an action as a command would: it reads the configuration, and checks that the
// turn is still the caller's. It leaves the committed hook events to a separate process.
func (m *mcpCaller) act(do func(turnActions) error) error {
	m.loading.Lock()
	actions, err := m.turnOf(m.open)
	m.loading.Unlock()
	if err != nil {
		return err
	}
	err = do(actions)
	if own, ok := actions.(ownTurn); ok {
		if failed := own.agent.LeaveHooks(); failed != nil {
			m.out.Warn("%v; the next poll calls the hooks", failed)
		}
	}
	return err
}

// effects returns the tools of runner = "api" that are also commands.
func (m *mcpCaller) effects() react.Effects {
	return react.Effects{
		SubmitsFiles: true,
		Submit: func(ctx context.Context, r react.Submission) error {
			sub := cycle.Submission{Text: r.Text, Files: r.Files, Finish: r.Finish}
			for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
				sub.Fields = append(sub.Fields, cycle.Field{Name: name, Value: r.Fields[name]})
			}
			return m.act(func(t turnActions) error { return t.submit(ctx, sub) })
		},
		Suspend: func(ctx context.Context, text string, patience time.Duration) (id string, err error) {
			err = m.act(func(t turnActions) error { id, err = t.suspend(ctx, text, patience); return err })
			return id, err
		},
		Ask: func(ctx context.Context, to, text string, fields []state.ResultField, files []string, patience time.Duration) (id string, err error) {
			if to, err = parseHandle(to); err != nil {
				return "", err
			}
			if err := state.CheckResultFields(fields); err != nil {
				return "", err
			}
			q := cycle.Question{To: to, Text: text, Fields: fields, Patience: patience}
			err = m.act(func(t turnActions) error { id, err = t.ask(ctx, q, files); return err })
			return id, err
		},
		AskOperator: func(ctx context.Context, question string, options []string, patience time.Duration) (id string, err error) {
			q := cycle.OperatorQuestion{Text: question, Options: options, Patience: patience}
			if err := q.Check(); err != nil {
				return "", err
			}
			err = m.act(func(t turnActions) error { id, err = t.askOperator(ctx, q); return err })
			return id, err
		},
		Send: func(ctx context.Context, to, text string, files []string) error {
			to, err := parseHandle(to)
			if err != nil {
				return err
			}
			return m.act(func(t turnActions) error { return t.send(ctx, to, text, files) })
		},
		Sleep: func(ctx context.Context, d time.Duration, why string) error {
			return m.act(func(t turnActions) error { return t.sleep(ctx, d, why) })
		},
		Remind: func(ctx context.Context, when, text string) (at time.Time, err error) {
			err = m.act(func(t turnActions) error { at, err = t.remind(ctx, when, text); return err })
			return at, err
		},
		Remember: func(ctx context.Context, text string) error {
			return m.act(func(t turnActions) error { return t.remember(ctx, text) })
		},
		Search: func(ctx context.Context, query string, n int) (found string, err error) {
			err = m.act(func(t turnActions) error { found, err = t.search(ctx, query, n); return err })
			return found, err
		},
	}
}
