package react

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"

	"github.com/google/jsonschema-go/jsonschema"
)

// Tool is a function that the model may call.
type Tool struct {
	Name        string // [a-zA-Z0-9_-]{1,64}, which both APIs accept
	Title       string // for people, in events and reports; "" is Name
	Description string // for the model
	Schema      json.RawMessage

	// Run runs the tool. The model reads the returned text, and also the text of an error,
	// which must explain the mistake in the call. Arguments that do not fit Schema have no
	// effect. An [Ending] as the error is a success that ends the run.
	Run func(ctx context.Context, args json.RawMessage) (string, error)
}

// Exec is the name of the tool that runs any program, in a sandbox (Shell).
const Exec = "exec"

// The default tools of a turn, for a config without [api.tools]. exec is never allowed by
// default. A turn for a peer may look at the workdir and send messages, but may not change
// anything or search the operator's words.
var (
	operatorTools = []string{"read_file", "write_file", "list", "send", "ask", "ask_operator", "submit_result", "sleep", "remind", "remember", "search_history"}
	peerTools     = []string{"read_file", "list", "send", "ask", "submit_result", "sleep", "remind"}
)

// DefaultTools returns the names of the tools that a turn may call by default. Only the
// operator's turns may call the tools from the config.
func DefaultTools(operator bool, all []Tool) []string {
	if !operator {
		return slices.Clone(peerTools)
	}
	names := slices.Clone(operatorTools)
	for _, t := range all {
		if !BuiltIn(t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

// BuiltIn reports whether a built-in tool has this name.
func BuiltIn(name string) bool { return name == Exec || slices.Contains(operatorTools, name) }

// Allow returns the tools with these names, in the order of all. An unknown name is an error,
// because a misspelt permission must not pass for a missing one.
func Allow(all []Tool, names []string) ([]Tool, error) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(t Tool) bool { return t.Name == name }) {
			return nil, fmt.Errorf("unknown tool %q; the tools are %s", name, strings.Join(toolNames(all), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(t Tool) bool { return !slices.Contains(names, t.Name) }), nil
}

func toolNames(tools []Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

// title returns the name of a tool for people.
func (t Tool) title() string { return cmp.Or(t.Title, t.Name) }

// ServerTool returns a tool of a tool server, which supplies the description and the schema. The
// tool validates its arguments against the schema before run.
func ServerTool(t Tool, run func(context.Context, json.RawMessage) (string, error)) (Tool, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(t.Schema, &schema); err != nil {
		return Tool{}, fmt.Errorf("tool %s: invalid JSON schema: %w", t.title(), err)
	}
	made, err := newTool(t.Name, t.Description, &schema, run)
	made.Title = t.Title
	return made, err
}

// typedTool returns a tool with arguments of type A. The schema follows from the fields of A and
// their tags, and allows no other arguments.
func typedTool[A any](name, description string, run func(context.Context, A) (string, error)) (Tool, error) {
	schema, err := jsonschema.For[A](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {}, // any value, rather than an array of bytes
	}})
	if err != nil {
		return Tool{}, fmt.Errorf("tool %s: %w", name, err)
	}
	return newTool(name, description, schema, func(ctx context.Context, args json.RawMessage) (string, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return "", fmt.Errorf("invalid arguments: %w", err)
		}
		return run(ctx, a)
	})
}

// newTool returns a tool that validates its arguments against schema first.
func newTool(name, description string, schema *jsonschema.Schema, run func(context.Context, json.RawMessage) (string, error)) (Tool, error) {
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return Tool{}, fmt.Errorf("tool %s: schema: %w", name, err)
	}
	published, err := json.Marshal(schema)
	if err != nil {
		return Tool{}, fmt.Errorf("tool %s: schema: %w", name, err)
	}
	return Tool{Name: name, Description: description, Schema: published, Run: func(ctx context.Context, args json.RawMessage) (string, error) {
		if len(bytes.TrimSpace(args)) == 0 {
			args = json.RawMessage("{}") // some models send an empty text for no arguments
		}
		var value any
		if err := json.Unmarshal(args, &value); err != nil {
			return "", fmt.Errorf("the arguments are not valid JSON: %w", err)
		}
		if err := resolved.Validate(value); err != nil {
			return "", fmt.Errorf("the arguments do not match the schema: %w", err)
		}
		return run(ctx, args)
	}}, nil
}

// maxResult bounds, in bytes, the result of one call.
const maxResult = 64 << 10

// truncate returns text, or its first n bytes with a note of the number of missing bytes.
func truncate(text string, n int) string {
	kept := plain.Cut(text, n)
	if len(kept) == len(text) {
		return text
	}
	return fmt.Sprintf("%s\n[truncated: %d bytes more]", kept, len(text)-len(kept))
}

// toolList collects tools and the errors of making them.
type toolList struct {
	tools []Tool
	err   error
}

func (g *toolList) add(t Tool, err error) {
	g.tools = append(g.tools, t)
	g.err = errors.Join(g.err, err)
}

// Program is a tool from the config: any executable, with a JSON schema. It gets its arguments
// as JSON on its standard input and prints its result.
type Program struct {
	Name        string
	Description string
	Schema      []byte   // JSON schema of an object
	Command     []string // never run through a shell
	Dir         string
	Env         []string
	Timeout     time.Duration

	// After is the consequence of a successful call: "" for the next request, Suspend,
	// Terminate, or ByOutput. With Suspend and ByOutput the turn waits for a report, from the
	// start of the call and for at most Deadline. The report comes from this machine or from
	// Peers.
	After    After
	Deadline time.Duration
	Peers    []string
	Pauses   Pauses
}

// ByOutput is the After of a program whose output decides: a JSON object with after_execution
// and, optionally, result. Any other output continues.
const ByOutput After = "tool"

// Pauses let a turn wait for a report. Package cycle implements them.
type Pauses struct {
	// Await commits that the turn waits, and returns the id that the report repeats. It is
	// called before the program starts.
	Await func(ctx context.Context, what, text string, peers []string, deadline time.Duration) (id string, err error)

	// Withdraw takes back the wait of Await.
	Withdraw func(ctx context.Context, id, reason string) error
}

// CorrelationVariable is the environment variable with the id that a program's report repeats.
const CorrelationVariable = "AGENTSTATELOOP_CORRELATION_ID"

var toolName = lazy.NewRegexp(`^[a-z][a-z0-9_]{0,63}$`)

// Tool returns the callable tool.
func (p Program) Tool() (Tool, error) {
	switch {
	case !toolName.Get().MatchString(p.Name):
		return Tool{}, fmt.Errorf("%q is not a valid tool name: use a-z, 0-9 and _", p.Name)
	case BuiltIn(p.Name):
		return Tool{}, fmt.Errorf("%q is a built-in tool: choose another name", p.Name)
	case len(p.Command) == 0:
		return Tool{}, fmt.Errorf("tool %s has no command", p.Name)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(p.Schema, &schema); err != nil {
		return Tool{}, fmt.Errorf("tool %s: invalid JSON schema: %w", p.Name, err)
	}
	if schema.Type != "object" {
		return Tool{}, fmt.Errorf(`tool %s: its schema must have "type": "object"`, p.Name)
	}
	return newTool(p.Name, p.Description+p.afterHint(), &schema, p.call)
}

// afterHint returns a hint for the model about the consequence of a call.
func (p Program) afterHint() string {
	switch p.After {
	case Suspend:
		return " The call suspends your turn, which resumes with the report of the started process."
	case Terminate:
		return " The call ends your turn: the answer is the result that you submitted, otherwise the result of the call."
	}
	return ""
}

func (p Program) call(ctx context.Context, args json.RawMessage) (string, error) {
	switch p.After {
	case Suspend, ByOutput:
		return p.callWaiting(ctx, args)
	case Terminate:
		text, err := p.run(ctx, args, p.Env)
		if err != nil {
			return "", err
		}
		return "", Ending{After: Terminate, Text: text}
	}
	return p.run(ctx, args, p.Env)
}

// callWaiting runs the program while the turn already waits for a report on it, so that an
// immediate report is not lost.
func (p Program) callWaiting(ctx context.Context, args json.RawMessage) (string, error) {
	if p.Pauses.Await == nil {
		return "", errors.New("this turn cannot be suspended")
	}
	id, err := p.Pauses.Await(ctx, "tool "+p.Name, string(args), p.Peers, p.Deadline)
	if err != nil {
		return "", err
	}
	text, err := p.run(ctx, args, append(slices.Clone(p.Env), CorrelationVariable+"="+id))
	if ctx.Err() != nil {
		return "", context.Cause(ctx) // it may have started a process: keep waiting for its report
	}
	if err != nil {
		return "", errors.Join(err, p.Pauses.Withdraw(ctx, id, "the tool failed"))
	}
	after, result := p.parseOutput(text)
	if after == Suspend {
		if result != "" {
			result += "\n"
		}
		return "", Ending{After: Suspend, Text: result + suspendNote(id, p.Deadline)}
	}
	if err := p.Pauses.Withdraw(ctx, id, "the tool did not suspend the turn"); err != nil {
		return "", err
	}
	if after == Terminate {
		return "", Ending{After: Terminate, Text: result}
	}
	return result, nil
}

// parseOutput returns the consequence of a call and its result, as the program's output decides.
func (p Program) parseOutput(text string) (After, string) {
	if p.After != ByOutput {
		return p.After, text
	}
	var out struct {
		After  After           `json:"after_execution"`
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal([]byte(text), &out) != nil || out.After != Continue && out.After != Suspend && out.After != Terminate {
		return Continue, text
	}
	var words string
	if json.Unmarshal(out.Result, &words) != nil {
		words = string(out.Result)
	}
	return out.After, words
}

// run runs the program and returns its output.
func (p Program) run(ctx context.Context, args json.RawMessage, env []string) (string, error) {
	return runProgram(ctx, p.Timeout, func(ctx context.Context, out, errs io.Writer) error {
		cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
		cmd.Dir, cmd.Env = p.Dir, env
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(args), out, errs
		cmd.WaitDelay = time.Second // processes left running end with the attempt, whose process group they share
		return cmd.Run()
	})
}
