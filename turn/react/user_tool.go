package react

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Program is a tool from the configuration: any executable, with a JSON schema. It
// gets its arguments as JSON on its standard input and prints its result.
type Program struct {
	Name        string
	Description string
	Schema      []byte   // JSON schema of an object
	Command     []string // never through a shell
	Dir         string
	Env         []string
	Timeout     time.Duration
}

var toolName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// Tool returns the callable tool.
func (p Program) Tool() (Tool, error) {
	switch {
	case !toolName.MatchString(p.Name):
		return Tool{}, fmt.Errorf("%q is not a valid tool name: use a-z, 0-9 and _", p.Name)
	case builtIn(p.Name):
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
	return checked(p.Name, p.Description, &schema, p.call)
}

func (p Program) call(ctx context.Context, args json.RawMessage) (string, error) {
	return runProgram(ctx, p.Timeout, func(ctx context.Context, out, errs io.Writer) error {
		cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
		cmd.Dir, cmd.Env = p.Dir, p.Env
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(args), out, errs
		cmd.WaitDelay = time.Second // what it left running ends with the attempt, whose process group it shares
		return cmd.Run()
	})
}
