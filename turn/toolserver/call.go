package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/turn/react"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxLate     = 3 // calls in a row that a server may leave unanswered
	maxRenewals = 3 // reconnections to a remote server in one turn
)

// call calls a tool once. The error is written for the model and explains the failure.
func (s *Session) call(ctx context.Context, tool string, args json.RawMessage) (*mcp.CallToolResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endReason != "" {
		return nil, s.errorf("the tool server %s has ended, and its tools are available again in the next turn: %s", s.server.Name, s.endReason)
	}
	limited, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	s.link.renew()
	result, err := s.session.CallTool(limited, &mcp.CallToolParams{Name: tool, Arguments: args})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && result == nil {
		err = errors.New("the answer is empty")
	}
	if err == nil {
		s.unanswered = 0
		return result, nil
	}
	return nil, s.handleFailure(ctx, limited, err)
}

// handleFailure handles a failed call and returns an error for the model. It ends the session if
// the server is of no further use. It reconnects to a remote server.
func (s *Session) handleFailure(ctx, limited context.Context, err error) error {
	if _, refused := refusal(err); refused {
		s.unanswered = 0
		return s.errorf("%s", s.reason(err, s.server.Timeout))
	}
	closed := errors.Is(err, mcp.ErrConnectionClosed) || s.link.broken()
	if limited.Err() != nil && (!closed || s.server.URL != "") {
		return s.handleTimeout(limited)
	}
	if !closed { // the answer is not valid
		return s.errorf("cannot parse the answer of the tool server %s: %s", s.server.Name, clip(err.Error(), maxNoise))
	}
	why := s.reason(err, s.server.Timeout)
	if s.server.URL == "" {
		s.end(why)
		return s.errorf("the tool server %s has ended: %s%s", s.server.Name, why, unknownOutcome)
	}
	s.renew(ctx, why)
	return s.errorf("the tool server %s failed: %s%s", s.server.Name, why, unknownOutcome)
}

const unknownOutcome = "; the call may have taken effect: check before you repeat it"

// handleTimeout returns the model's error for a call that timed out. It ends a server that leaves
// several calls in a row unanswered.
func (s *Session) handleTimeout(limited context.Context) error {
	why := s.reason(limited.Err(), s.server.Timeout)
	if s.unanswered++; s.unanswered < maxLate {
		return s.errorf("the tool server %s: %s%s", s.server.Name, why, unknownOutcome)
	}
	s.end(fmt.Sprintf("it did not answer %d calls in a row", maxLate))
	return s.errorf("the tool server %s: %s, and was ended after %d unanswered calls%s", s.server.Name, why, maxLate, unknownOutcome)
}

// renew reconnects to a remote server for the next call. The server may end a session and still
// be up.
func (s *Session) renew(ctx context.Context, why string) {
	if s.renewals++; s.renewals > maxRenewals {
		s.end(why)
		return
	}
	s.disconnect()
	limited, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	if err := s.connect(ctx, limited); err != nil {
		s.endReason = s.reason(err, s.server.Timeout)
	}
}

// errorf returns an error for the model, with secrets redacted.
func (s *Session) errorf(format string, args ...any) error {
	return errors.New(s.redact(fmt.Sprintf(format, args...)))
}

const (
	maxResult   = 64 << 10 // bytes of a result's text
	maxPictures = 20       // of one server in a turn
)

// result returns the text of a call's result for the model. It keeps pictures and returns them
// as a react.FilesResult. A result that the tool marks as an error becomes an error.
func (s *Session) result(tool string, r *mcp.CallToolResult) (string, error) {
	var parts []string
	var files []react.ShownFile
	for _, content := range r.Content {
		part, picture := s.content(tool, content)
		if picture != nil {
			files = append(files, *picture)
			continue
		}
		parts = append(parts, part)
	}
	if text, ok := structuredText(r); ok {
		parts = append(parts, text)
	}
	text := s.redact(joinParts(parts))
	switch {
	case r.IsError && text == "":
		return "", errors.New("the tool failed without a reason")
	case r.IsError:
		return "", errors.New(text)
	case len(files) > 0:
		return "", react.FilesResult{Text: text, Files: files}
	case text == "":
		return "(empty)", nil
	}
	return text, nil
}

// joinParts returns the parts as one text, truncated to maxResult bytes.
func joinParts(parts []string) string {
	text := strings.ToValidUTF8(strings.Join(parts, "\n"), "\uFFFD")
	kept := plain.Cut(text, maxResult)
	if len(kept) < len(text) {
		return fmt.Sprintf("%s\n[truncated: %d bytes more]", kept, len(text)-len(kept))
	}
	return text
}

// content returns one part of a result: a text, or a picture that was kept. For content that
// cannot be shown, the text describes it.
func (s *Session) content(tool string, content mcp.Content) (string, *react.ShownFile) {
	switch c := content.(type) {
	case *mcp.TextContent:
		return c.Text, nil
	case *mcp.ImageContent:
		picture, err := s.keep(tool, c.Data)
		if err != nil {
			return fmt.Sprintf("[image (%s) not shown: %v]", describeContent(c.MIMEType, len(c.Data)), err), nil
		}
		return "", &picture
	case *mcp.AudioContent:
		return fmt.Sprintf("[audio (%s) not played]", describeContent(c.MIMEType, len(c.Data))), nil
	case *mcp.ResourceLink:
		words := []string{clip(c.Name, 200), clip(c.Title, 200), clip(c.Description, maxWords), clip(c.MIMEType, 100)}
		words = append(words, clip(c.URI, maxWords))
		return "[resource of the server, for use with its tools: " + strings.Join(nonEmpty(words), ", ") + "]", nil
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return "[resource without content]", nil
		}
		name := clip(c.Resource.URI, maxWords)
		if c.Resource.Blob != nil {
			return fmt.Sprintf("[resource %s (%s) not shown: not a text]", name, describeContent(c.Resource.MIMEType, len(c.Resource.Blob))), nil
		}
		return fmt.Sprintf("[resource %s:]\n%s", name, c.Resource.Text), nil
	}
	return "[content of an unknown type]", nil
}

// describeContent returns the type and the size of content that is not shown.
func describeContent(mime string, size int) string {
	return strings.Join(nonEmpty([]string{clip(mime, 100), plain.Size(int64(size))}), ", ")
}

func nonEmpty(words []string) (kept []string) {
	for _, w := range words {
		if w != "" {
			kept = append(kept, w)
		}
	}
	return kept
}

// keep keeps a picture of a result.
func (s *Session) keep(tool string, data []byte) (react.ShownFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.server.Keep == nil:
		return react.ShownFile{}, errors.New("images are not supported here")
	case s.pictures == maxPictures:
		return react.ShownFile{}, fmt.Errorf("the limit is %d images of a server in a turn", maxPictures)
	}
	s.pictures++
	return s.server.Keep(fmt.Sprintf("%s-%d", modelName(s.server.Name, tool), s.pictures), data)
}

// structuredText returns the structured content of a result as JSON. It returns false if a text of
// the result has the same content, as the protocol recommends.
func structuredText(r *mcp.CallToolResult) (string, bool) {
	if r.StructuredContent == nil {
		return "", false
	}
	for _, content := range r.Content {
		var value any
		text, ok := content.(*mcp.TextContent)
		if ok && json.Unmarshal([]byte(text.Text), &value) == nil && reflect.DeepEqual(value, r.StructuredContent) {
			return "", false
		}
	}
	text, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return "", false
	}
	return string(text), true
}
