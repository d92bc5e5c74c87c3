package turn

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
)

// ToolRequest is a tool call for which an agent asks permission.
type ToolRequest struct {
	Name  string // of the tool
	Title string // the agent's description of the call
	Kind  string // as the agent names it

	Input, Content, Locations json.RawMessage // as in the Agent Client Protocol
}

// KnownKind returns the kind of the tool if it is one of ToolKinds, otherwise "other".
func (r ToolRequest) KnownKind() string {
	if slices.Contains(ToolKinds(), r.Kind) {
		return r.Kind
	}
	return "other"
}

// Size returns the size of the request in bytes.
func (r ToolRequest) Size() int {
	return len(r.Name) + len(r.Title) + len(r.Kind) + len(r.Input) + len(r.Content) + len(r.Locations)
}

// Identity returns a hash of the whole request, which identifies it. Two requests have different
// identities if they differ in any part that the operator saw or could have seen.
func (r ToolRequest) Identity() string {
	text, err := json.Marshal([]any{r.KnownKind(), r.Kind, r.Name, r.Title, canonical(r.Input), canonical(r.contents()), canonical(r.Locations)})
	if err != nil {
		panic(err) // texts can be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// contents returns the contents without the terminals. A terminal is only the id of an output
// window, and every call gets a different one.
func (r ToolRequest) contents() json.RawMessage {
	var blocks []json.RawMessage
	if json.Unmarshal(r.Content, &blocks) != nil || !slices.ContainsFunc(blocks, isTerminal) {
		return r.Content
	}
	rest, err := json.Marshal(append([]json.RawMessage{}, slices.DeleteFunc(blocks, isTerminal)...))
	if err != nil {
		return r.Content
	}
	return rest
}

// isTerminal reports whether a block of content only names a terminal.
func isTerminal(block json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(block, &fields) == nil && len(fields) == 2 && string(fields["type"]) == `"terminal"` && len(fields["terminalId"]) > 0
}

// canonical returns a JSON value in a form that does not depend on the order of keys or on
// blanks.
func canonical(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(text)
}

// maxQuestion bounds a request that the operator is shown, in bytes.
const maxQuestion = 3 << 10

// toolVerb returns the words for the use of a tool of this kind, or "" for an unknown kind.
func toolVerb(kind string) string {
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
		return "fetch something from the network"
	case "switch_mode":
		return "switch its mode"
	case "other":
		return "use a tool"
	}
	return ""
}

// Question returns the text that asks the operator to permit the request. It contains the whole
// request in indented lines, which Markdown shows unchanged, and every character is visible. An
// error means that the request is too long or has no content.
func (r ToolRequest) Question() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "May the agent %s (%s)? Its request:\n\n", toolVerb(r.KnownKind()), r.KnownKind())
	quote(&b, "", r.Title)
	described := r.Title != ""
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		show func(*strings.Builder, json.RawMessage)
	}{{"Input", r.Input, showInput}, {"Contents", r.contents(), showContent}, {"Where", r.Locations, showLocations}} {
		if text := string(part.raw); text == "" || text == "{}" || text == "[]" {
			continue
		}
		if len(part.raw) > maxQuestion {
			return "", fmt.Errorf("the request is too long to show: %s", plain.Size(int64(r.Size())))
		}
		described = true
		fmt.Fprintf(&b, "\n%s:\n\n", part.name)
		part.show(&b, part.raw)
	}
	if !described {
		return "", errors.New("the request does not describe the action")
	}
	if b.Len() > maxQuestion || len(r.Title) > maxQuestion {
		return "", fmt.Errorf("the request is too long to show: %s", plain.Size(int64(r.Size())))
	}
	return b.String(), nil
}

const indent = "    "

// quote writes a text of the agent unchanged, in indented lines. A text with an invisible
// character becomes a JSON string, which makes the character visible.
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

// raw writes a JSON value unchanged on one line.
func raw(b *strings.Builder, name string, value json.RawMessage) {
	line := string(plain.JSON([]byte(canonical(value))))
	if name != "" {
		line = name + ": " + line
	}
	fmt.Fprintf(b, "%s%s\n", indent, line)
}

// showInput writes the input of a tool, one key per line.
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

// showContent writes the content of a tool call: texts and file changes.
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
			text, isText = TextBlock(d.Content)
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

// TextBlock returns the text of a content block. It returns false for a block of another type.
func TextBlock(content json.RawMessage) (string, bool) {
	var block struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(content, &block) != nil || block.Type != "text" || block.Text == nil {
		return "", false
	}
	return *block.Text, true
}
