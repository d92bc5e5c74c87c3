package toolserver

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var ModelName = modelName

// ReadResult returns the text for the model of a result that a server sends as JSON.
func ReadResult(text []byte, s Server) (string, error) {
	var r mcp.CallToolResult
	if err := json.Unmarshal(text, &r); err != nil {
		return "", err
	}
	return (&Session{server: s}).result("tool", &r)
}

// CleanSchema is cleanSchema of a schema that a server sends as JSON.
func CleanSchema(text []byte) ([]byte, error) {
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, err
	}
	return cleanSchema(schema, func(s string) string { return s })
}
