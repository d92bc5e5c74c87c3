package toolserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"agentstateloop/internal/plain"
)

const (
	maxDepth    = 16   // levels of a schema
	maxWord     = 1000 // bytes of a description in it
	maxProperty = 64   // bytes of an argument's name
)

// cleanSchema returns the schema of a tool's arguments in a form that every provider accepts:
// an object with properties, and without alternatives at its top level, which the server checks
// itself. The error explains why the tool cannot be offered.
func cleanSchema(schema any, redact func(string) string) ([]byte, error) {
	object, ok := schema.(map[string]any)
	if schema == nil {
		object, ok = map[string]any{}, true
	}
	if !ok {
		return nil, errors.New("the schema is not an object")
	}
	cleaned, err := cleanValue("", object, redact, maxDepth)
	if err != nil {
		return nil, err
	}
	object = cleaned.(map[string]any)
	if kind, has := object["type"]; has && kind != "object" {
		return nil, fmt.Errorf("the schema has type %v, expected object", clip(fmt.Sprint(kind), 100))
	}
	object["type"] = "object"
	for _, key := range []string{"$schema", "$id", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum"} {
		delete(object, key)
	}
	properties, ok := object["properties"].(map[string]any)
	if object["properties"] == nil {
		properties, ok = map[string]any{}, true
		object["properties"] = properties
	}
	if !ok {
		return nil, errors.New("the properties of the schema are not an object")
	}
	for name := range properties {
		if !validProperty(name) {
			return nil, fmt.Errorf("invalid argument name %q", clip(name, 100))
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if len(text) > maxSchema {
		return nil, fmt.Errorf("the schema exceeds %s", plain.Size(maxSchema))
	}
	return text, nil
}

// cleanValue returns a value of a schema with secrets redacted. It makes descriptions plain and
// truncates them. It drops a pattern that does not compile here: the server checks it.
func cleanValue(key string, value any, redact func(string) string, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("the schema has more than %d levels", maxDepth)
	}
	switch v := value.(type) {
	case string:
		v = redact(v)
		if key == "description" || key == "title" || key == "$comment" {
			v = plain.Cut(plain.Text(v), maxWord)
		}
		return v, nil
	case []any:
		cleaned := make([]any, len(v))
		for i, element := range v {
			var err error
			if cleaned[i], err = cleanValue("", element, redact, depth-1); err != nil {
				return nil, err
			}
		}
		return cleaned, nil
	case map[string]any:
		cleaned := make(map[string]any, len(v))
		for key, element := range v {
			if plain.Line(key) != key || redact(key) != key {
				return nil, fmt.Errorf("invalid name %q in the schema", redact(clip(key, 100)))
			}
			if pattern, ok := element.(string); ok && key == "pattern" && !compiles(pattern) {
				continue
			}
			var err error
			if cleaned[key], err = cleanValue(key, element, redact, depth-1); err != nil {
				return nil, err
			}
		}
		return cleaned, nil
	}
	return value, nil
}

// validProperty reports whether every provider accepts name as an argument's name. If one name
// is invalid, a provider refuses the whole request.
func validProperty(name string) bool {
	bad := func(r rune) bool { return r != '.' && !nameRune(r) }
	return name != "" && len(name) <= maxProperty && !strings.ContainsFunc(name, bad)
}

func compiles(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil
}
