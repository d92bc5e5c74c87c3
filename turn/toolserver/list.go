package toolserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentstateloop/internal/order"
	"agentstateloop/internal/plain"
	"agentstateloop/turn/react"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The bounds of a server's list. The whole list is part of each request to the model.
const (
	maxTools       = 100
	maxPages       = 20
	maxName        = 128
	maxDescription = 4 << 10  // bytes
	maxSchema      = 32 << 10 // bytes
)

// list requests the tools, once. Later changes of the list take effect in the next turn: the
// model's requests begin with the same tools throughout a turn.
func (s *Session) list(ctx context.Context) error {
	var all []*mcp.Tool
	params := &mcp.ListToolsParams{}
	for page := 0; ; page++ {
		result, err := s.session.ListTools(ctx, params)
		if err != nil {
			return err
		}
		all = append(all, result.Tools...)
		if result.NextCursor == "" {
			break
		}
		if len(all) > maxTools || page == maxPages {
			s.notes = append(s.notes, fmt.Sprintf("the list has more than %d tools or too many pages", min(len(all), maxTools)))
			break
		}
		params = &mcp.ListToolsParams{Cursor: result.NextCursor}
	}
	order.Stable(all, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	all = slices.CompactFunc(all, func(a, b *mcp.Tool) bool { return a.Name == b.Name })
	s.tools = slices.DeleteFunc(all, func(t *mcp.Tool) bool {
		bad := t.Name == "" || len(t.Name) > maxName || plain.Line(t.Name) != t.Name || s.redact(t.Name) != t.Name
		if bad {
			s.notes = append(s.notes, fmt.Sprintf("invalid tool name %q", s.redact(clip(t.Name, 100))))
		}
		return bad
	})
	if more := len(s.tools) - maxTools; more > 0 {
		s.notes = append(s.notes, fmt.Sprintf("only the first %d of %d tools are available", maxTools, len(s.tools)))
		s.tools = s.tools[:maxTools]
	}
	return nil
}

// Names returns the names of the server's tools, sorted.
func (s *Session) Names() []string {
	var names []string
	for _, t := range s.tools {
		names = append(names, t.Name)
	}
	return names
}

// Tools returns the tools that allowed permits, sorted by name, whatever the server's order.
// notes describes the faults of other tools, and is empty without faults.
func (s *Session) Tools(allowed func(tool string) bool) (tools []react.Tool, notes string) {
	wrong := slices.Clone(s.notes)
	for _, t := range s.tools {
		if !allowed(t.Name) {
			continue
		}
		tool, err := s.tool(t)
		if err == nil && slices.ContainsFunc(tools, func(other react.Tool) bool { return other.Name == tool.Name }) {
			err = errors.New("another tool has the same name for the model")
		}
		if err != nil {
			wrong = append(wrong, s.redact(fmt.Sprintf("%s: %v", t.Name, err)))
			continue
		}
		tools = append(tools, tool)
	}
	return tools, joinNotes(wrong)
}

// tool returns a tool for the model.
func (s *Session) tool(t *mcp.Tool) (react.Tool, error) {
	schema, err := cleanSchema(t.InputSchema, s.redact)
	if err != nil {
		return react.Tool{}, err
	}
	name := t.Name
	return react.ServerTool(react.Tool{
		Name:        modelName(s.server.Name, name),
		Title:       s.server.Name + "/" + name,
		Description: fmt.Sprintf("[%s/%s, from a tool server] %s", s.server.Name, name, s.description(t)),
		Schema:      schema,
	}, func(ctx context.Context, args json.RawMessage) (string, error) {
		result, err := s.call(ctx, name, args)
		if err != nil {
			return "", err
		}
		return s.result(name, result)
	})
}

// description returns a tool's own description, within bounds.
func (s *Session) description(t *mcp.Tool) string {
	text := strings.TrimSpace(s.redact(plain.Text(strings.ToValidUTF8(t.Description, "\uFFFD"))))
	if text == "" {
		text = s.redact(clip(t.Title, maxNoise))
	}
	if len(text) > maxDescription {
		text = plain.Cut(text, maxDescription) + " [truncated]"
	}
	return text
}

// maxModelName is the longest tool name that the providers accept.
const maxModelName = 64

// modelName returns the name by which the model calls a tool: NAME__tool. The providers accept
// letters, digits, "_" and "-". A name that is too long or has other characters is changed, and
// ends in a checksum of the original. The result thus does not depend on other tools. No two
// servers share a name, because server names contain no "__" and do not end in "_".
func modelName(server, tool string) string {
	full := server + "__" + tool
	name := strings.Map(func(r rune) rune {
		if nameRune(r) {
			return r
		}
		return '_'
	}, full)
	if name == full && len(name) <= maxModelName {
		return name
	}
	sum := sha256.Sum256([]byte(full))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxModelName-len(suffix))] + suffix
}

// nameRune reports whether every provider accepts r in a tool name.
func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
