package commands

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemaDir has a JSON Schema for each output, and common.json for their shared definitions.
const schemaDir = "../docs/json"

// schema is one file of schemaDir. Besides the keywords of JSON Schema it has some of
// our own, which describe when its document is printed:
//
//	x-command  the command; "" for the program itself
//	x-flags    the flags that make the command print this instead
//	x-usage    the command line of a user
//	x-stream   it is printed once a line, and there may be many
//	x-tells    the document itself reports a failure, so no error document follows
type schema struct {
	file           string
	command        *string // nil: no command of its own
	flags          []string
	usage          string
	stream         bool
	reportsFailure bool
	tree           *object // as it is written
	check          *jsonschema.Resolved
}

// schemas are all of schemaDir but common.json.
type schemas struct {
	all   []*schema
	trees map[string]*object // by file
}

// readSchemas reads schemaDir.
func readSchemas(t *testing.T) *schemas {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(schemaDir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas in %s: %v", schemaDir, err)
	}
	ss := &schemas{trees: map[string]*object{}}
	for _, path := range files {
		tree, err := decodeOrdered(readFile(t, path))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		ss.trees[filepath.Base(path)] = tree.(*object)
	}
	for _, path := range files {
		file := filepath.Base(path)
		if file == "common.json" {
			continue
		}
		s, err := ss.compile(file)
		if err != nil {
			t.Fatalf("docs/json/%s: %v", file, err)
		}
		ss.all = append(ss.all, s)
	}
	return ss
}

// compile returns the schema of a file, which refuses unknown keys.
func (ss *schemas) compile(file string) (*schema, error) {
	tree := ss.trees[file]
	s := &schema{file: file, tree: tree}
	if command, ok := tree.values["x-command"].(string); ok {
		s.command = &command
	}
	for _, flag := range list(tree.values["x-flags"]) {
		s.flags = append(s.flags, flag.(string))
	}
	s.usage, _ = tree.values["x-usage"].(string)
	s.stream, _ = tree.values["x-stream"].(bool)
	s.reportsFailure, _ = tree.values["x-tells"].(bool)
	strict, err := ss.strict(file, tree)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(strict)
	if err != nil {
		return nil, err
	}
	var whole jsonschema.Schema
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	s.check, err = whole.Resolve(nil)
	return s, err
}

// strict returns a schema with each reference replaced by its target, and without other keys in an
// object than those that are described.
func (ss *schemas) strict(file string, node any) (any, error) {
	switch node := node.(type) {
	case []any:
		var all []any
		for _, item := range node {
			strict, err := ss.strict(file, item)
			if err != nil {
				return nil, err
			}
			all = append(all, strict)
		}
		return all, nil
	case *object:
		if node.values["$ref"] != nil {
			in, target, err := ss.follow(file, node)
			if err != nil {
				return nil, err
			}
			return ss.strict(in, target)
		}
		out := map[string]any{}
		for _, key := range node.keys {
			if key == "$id" || key == "$schema" || key == "$defs" {
				continue
			}
			strict, err := ss.strict(file, node.values[key])
			if err != nil {
				return nil, err
			}
			out[key] = strict
		}
		if node.object("properties") != nil && node.values["additionalProperties"] == nil {
			out["additionalProperties"] = false
		}
		return out, nil
	}
	return node, nil
}

// follow returns the target of a reference, and its file.
func (ss *schemas) follow(file string, node *object) (in string, target *object, err error) {
	ref := node.values["$ref"].(string)
	in, place, _ := strings.Cut(ref, "#/$defs/")
	if in == "" {
		in = file
	}
	target = ss.trees[in]
	if target == nil {
		return "", nil, fmt.Errorf("%q refers to a file that does not exist", ref)
	}
	if place == "" {
		return in, target, nil
	}
	defs := target.object("$defs")
	if defs == nil || defs.object(place) == nil {
		return "", nil, fmt.Errorf("%q refers to a definition that does not exist", ref)
	}
	return in, defs.object(place), nil
}

// validate checks a document.
func (s *schema) validate(document []byte) error {
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		return err
	}
	if err := s.check.Validate(value); err != nil {
		return fmt.Errorf("it does not match docs/json/%s: %w", s.file, err)
	}
	return nil
}

// named returns the schema of a file.
func (ss *schemas) named(file string) *schema {
	for _, s := range ss.all {
		if s.file == file {
			return s
		}
	}
	return nil
}

// of returns the schema for the output of a command line, or nil: of the schemas of the
// command the one that most flags select.
func (ss *schemas) of(command string, asked *arrangement) *schema {
	if asked.help || command == "" && !asked.hasSwitch("version", "v") {
		return ss.named("help.json")
	}
	if command == "" {
		return ss.named("version.json")
	}
	var best *schema
	for _, s := range ss.all {
		if s.command == nil || *s.command != command || slices.ContainsFunc(s.flags, func(flag string) bool { return !asked.hasFlag(flag) }) {
			continue
		}
		if best == nil || len(s.flags) > len(best.flags) {
			best = s
		}
	}
	return best
}

// hasFlag reports whether a flag of the command was given; "--wait=done" is one value
// of a flag.
func (a *arrangement) hasFlag(flag string) bool {
	return slices.ContainsFunc(a.own, func(arg string) bool {
		return strings.HasPrefix(strings.TrimLeft(arg, "-")+"=", strings.TrimLeft(flag, "-")+"=")
	})
}

// object is an object of JSON whose keys keep their order.
type object struct {
	keys   []string
	values map[string]any
}

// decodeOrdered decodes a value of JSON: an *object, a []any, or a value as encoding/json decodes it.
func decodeOrdered(data string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(data))
	value, err := nextOrdered(dec)
	if err == nil && dec.More() {
		err = fmt.Errorf("more than one value")
	}
	return value, err
}

func nextOrdered(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := &object{values: map[string]any{}}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			if _, twice := o.values[key.(string)]; twice {
				return nil, fmt.Errorf("duplicate key %q", key)
			}
			value, err := nextOrdered(dec)
			if err != nil {
				return nil, err
			}
			o.keys = append(o.keys, key.(string))
			o.values[key.(string)] = value
		}
		_, err := dec.Token()
		return o, err
	case json.Delim('['):
		all := []any{}
		for dec.More() {
			value, err := nextOrdered(dec)
			if err != nil {
				return nil, err
			}
			all = append(all, value)
		}
		_, err := dec.Token()
		return all, err
	}
	return token, nil
}

func list(value any) []any {
	all, _ := value.([]any)
	return all
}
