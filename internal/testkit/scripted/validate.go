package scripted

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// decode reads JSON into v. Unless lenient, a field that v does not have is an error.
func decode(data []byte, v any, lenient bool) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if !lenient {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("something follows the JSON object")
	}
	return nil
}

// validName reports whether the APIs accept s as a name or an id.
func validName(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	})
}

// checkTool checks the properties that both APIs require of a tool.
func checkTool(name string, schema json.RawMessage, seen map[string]bool) error {
	var s struct {
		Type string `json:"type"`
	}
	switch {
	case !validName(name, 64):
		return fmt.Errorf("tools: the name %q is not of letters, digits, _ and -, 64 at most", name)
	case seen[name]:
		return fmt.Errorf("tools: the name %q is used twice", name)
	case json.Unmarshal(schema, &s) != nil || s.Type != "object":
		return fmt.Errorf(`tools: the schema of %s is not of type "object"`, name)
	}
	seen[name] = true
	return nil
}

// isObject reports whether raw is a JSON object.
func isObject(raw []byte) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(raw, &o) == nil && o != nil
}

// readShown reads a picture or a PDF like the APIs: the bytes must match the type.
func readShown(kind, encoded string, document bool) (Shown, error) {
	data, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case err != nil || len(data) == 0:
		return Shown{}, fmt.Errorf("source: the data is not base64")
	case document && kind != "application/pdf":
		return Shown{}, fmt.Errorf("source.media_type: a document of type %q is not supported", kind)
	case !document && kind != "image/png" && kind != "image/jpeg" && kind != "image/gif" && kind != "image/webp":
		return Shown{}, fmt.Errorf("source.media_type: an image of type %q is not supported", kind)
	case http.DetectContentType(data) != kind:
		return Shown{}, fmt.Errorf("source: the file does not match its media type %s", kind)
	case !document && len(encoded) > 5<<20:
		return Shown{}, fmt.Errorf("source: image exceeds 5 MB maximum: %d bytes > %d bytes", len(encoded), 5<<20)
	}
	return Shown{Type: kind, Data: data}, nil
}

// answered checks the results in a message against the calls of the message before it.
func answered(at int, calls []Call, results []Result) error {
	open := map[string]bool{}
	for _, c := range calls {
		open[c.ID] = true
	}
	for _, r := range results {
		if !open[r.ID] {
			return fmt.Errorf("messages.%d: the result %q belongs to no call of the message before", at, r.ID)
		}
		delete(open, r.ID)
	}
	for id := range open {
		return fmt.Errorf("messages.%d: the call %q has no result in the message after it", at-1, id)
	}
	return nil
}
