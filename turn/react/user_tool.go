package react

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agentstateloop/internal/lazy"
)

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
		return Tool{}, fmt.Errorf("tool %s: its schema is not a JSON schema: %w", p.Name, err)
	}
	if schema.Type != "object" {
		return Tool{}, fmt.Errorf(`tool %s: its schema must have "type": "object"`, p.Name)
	}
	return checked(p.Name, p.Description+p.announcement(), &schema, p.call)
}

// announcement returns a hint for the model about the consequence of a call.
func (p Program) announcement() string {
	switch p.After {
	case Suspend:
		return " Your turn is suspended after it, and goes on when what it started has reported."
	case Terminate:
		return " Your turn ends with it: what you have submitted is the answer, or else its result."
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
		return "", errors.New("the tool is to suspend the turn, which is not possible here")
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
	after, result := p.said(text)
	if after == Suspend {
		if result != "" {
			result += "\n"
		}
		return "", Ending{After: Suspend, Text: result + suspended(id, p.Deadline)}
	}
	if err := p.Pauses.Withdraw(ctx, id, "the tool was done at once"); err != nil {
		return "", err
	}
	if after == Terminate {
		return "", Ending{After: Terminate, Text: result}
	}
	return result, nil
}

// said returns the consequence of a call and its result, as the program's output decides.
func (p Program) said(text string) (After, string) {
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
