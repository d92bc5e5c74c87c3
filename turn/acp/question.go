package acp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
)

// maxQuestion bounds, in bytes, a request that the operator is shown.
const maxQuestion = 3 << 10

// verb returns what an agent wants to do with a tool of a kind.
func verb(kind string) string {
	switch kind {
	case "read":
		return "read something"
	case "edit":
		return "change a file"
	case "delete":
		return "delete something"
	case "move":
		return "move something"
	case "search":
		return "search"
	case "execute":
		return "run a command"
	case "think":
		return "think"
	case "fetch":
		return "fetch something from a network"
	case "switch_mode":
		return "switch its mode"
	case "other":
		return "use a tool"
	}
	return ""
}

// question returns the words that put a request to the operator. All of the request is
// in them, as lines that are set in, which Markdown shows as they are, and in which every
// character is seen. An error means that it is too long.
func question(r call) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "May the agent %s (%s)? It says:\n\n", verb(r.kind()), r.kind())
	quote(&b, "", r.Title)
	described := r.Title != ""
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		show func(*strings.Builder, json.RawMessage)
	}{{"Input", r.Input, showInput}, {"Contents", r.Content, showContent}, {"Where", r.Locations, showLocations}} {
		if text := string(part.raw); text == "" || text == "{}" || text == "[]" {
			continue
		}
		if len(part.raw) > maxQuestion {
			return "", fmt.Errorf("the request is too long to show, %s", plain.Size(int64(r.size())))
		}
		described = true
		fmt.Fprintf(&b, "\n%s:\n\n", part.name)
		part.show(&b, part.raw)
	}
	if !described {
		return "", errors.New("the agent does not say what it wants to do")
	}
	if b.Len() > maxQuestion || len(r.Title) > maxQuestion {
		return "", fmt.Errorf("the request is too long to show, %s", plain.Size(int64(r.size())))
	}
	return b.String(), nil
}

const indent = "    "

// quote writes a text of the agent, set in, as it is. If a character of it would not be
// seen, it writes it as a JSON string, where each is.
func quote(b *strings.Builder, name, text string) {
	if text == "" {
		return
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, line := range lines {
		if strings.Join(strings.Fields(line), " ") != plain.Line(line) || strings.Contains(line, "\t") {
			lines = []string{jsonText(text)}
			break
		}
	}
	if name != "" && len(lines) > 1 {
		fmt.Fprintf(b, "%s%s:\n", indent, name)
		name = ""
	}
	for _, line := range lines {
		if name != "" {
			line = name + ": " + line
		}
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}

// jsonText returns v as JSON on one line.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(plain.JSON(text))
}

// raw writes a JSON value as it is, on one line.
func raw(b *strings.Builder, name string, value json.RawMessage) {
	line := string(plain.JSON([]byte(canonical(value))))
	if name != "" {
		line = name + ": " + line
	}
	fmt.Fprintf(b, "%s%s\n", indent, line)
}

// showInput writes the input of a tool, a line for each key.
func showInput(b *strings.Builder, input json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil {
		raw(b, "", input)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		name := key
		if plain.Line(key) != key {
			name = jsonText(key)
		}
		var text string
		if json.Unmarshal(fields[key], &text) == nil && text != "" {
			quote(b, name, text)
			continue
		}
		raw(b, name, fields[key])
	}
}

// showContent writes what a tool shows of itself: texts, and changes of files.
func showContent(b *strings.Builder, content json.RawMessage) {
	var blocks []json.RawMessage
	if json.Unmarshal(content, &blocks) != nil {
		raw(b, "", content)
		return
	}
	for _, block := range blocks {
		var d struct {
			Type    string          `json:"type"`
			Path    string          `json:"path"`
			Old     *string         `json:"oldText"`
			New     *string         `json:"newText"`
			Content json.RawMessage `json:"content"`
		}
		text, isText := "", false
		if json.Unmarshal(block, &d) == nil && d.Type == "content" {
			text, isText = textOf(d.Content)
		}
		switch {
		case isText:
			quote(b, "", text)
		case d.Type == "diff" && d.New != nil:
			quote(b, "file", d.Path)
			if d.Old != nil {
				quote(b, "old", *d.Old)
			}
			quote(b, "new", *d.New)
		default:
			raw(b, "", block)
		}
	}
}

// showLocations writes the files that a tool works on.
func showLocations(b *strings.Builder, locations json.RawMessage) {
	var files []struct {
		Path string `json:"path"`
		Line *int   `json:"line"`
	}
	if json.Unmarshal(locations, &files) != nil {
		raw(b, "", locations)
		return
	}
	for _, f := range files {
		if f.Line != nil {
			quote(b, "", fmt.Sprintf("%s:%d", f.Path, *f.Line))
			continue
		}
		quote(b, "", f.Path)
	}
}
