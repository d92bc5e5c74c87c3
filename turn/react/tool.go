package react

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"agentstateloop/internal/plain"
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
			return nil, fmt.Errorf("unknown tool %q; the tools are %s", name, strings.Join(namesOf(all), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(t Tool) bool { return !slices.Contains(names, t.Name) }), nil
}

func namesOf(tools []Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

// title returns the name of a tool for people.
func (t Tool) title() string { return cmp.Or(t.Title, t.Name) }

// Foreign returns a tool of a tool server, which supplies the description and the schema. The
// tool validates its arguments against the schema before run.
func Foreign(t Tool, run func(context.Context, json.RawMessage) (string, error)) (Tool, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(t.Schema, &schema); err != nil {
		return Tool{}, fmt.Errorf("tool %s: its schema is not a JSON schema: %w", t.title(), err)
	}
	made, err := checked(t.Name, t.Description, &schema, run)
	made.Title = t.Title
	return made, err
}

// typed returns a tool with arguments of type A. The schema follows from the fields of A and
// their tags, and allows no other arguments.
func typed[A any](name, description string, run func(context.Context, A) (string, error)) (Tool, error) {
	schema, err := jsonschema.For[A](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {}, // any value, rather than an array of bytes
	}})
	if err != nil {
		return Tool{}, fmt.Errorf("tool %s: %w", name, err)
	}
	return checked(name, description, schema, func(ctx context.Context, args json.RawMessage) (string, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return "", fmt.Errorf("the arguments do not fit: %w", err)
		}
		return run(ctx, a)
	})
}

// checked returns a tool that validates its arguments against schema first.
func checked(name, description string, schema *jsonschema.Schema, run func(context.Context, json.RawMessage) (string, error)) (Tool, error) {
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
			return "", fmt.Errorf("the arguments are not JSON: %w", err)
		}
		if err := resolved.Validate(value); err != nil {
			return "", fmt.Errorf("the arguments do not fit the schema: %w", err)
		}
		return run(ctx, args)
	}}, nil
}

// maxResult bounds, in bytes, the result of one call.
const maxResult = 64 << 10

// truncated returns text, or its first n bytes with a note of the number of missing bytes.
func truncated(text string, n int) string {
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
