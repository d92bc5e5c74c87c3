package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	if s.gone != "" {
		return nil, s.tell("the tool server %s has ended, and its tools can be called in the next turn again: %s", s.server.Name, s.gone)
	}
	limited, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	s.link.renew()
	result, err := s.session.CallTool(limited, &mcp.CallToolParams{Name: tool, Arguments: args})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && result == nil {
		err = errors.New("its answer is empty")
	}
	if err == nil {
		s.late = 0
		return result, nil
	}
	return nil, s.mend(ctx, limited, err)
}

// mend handles a failed call and returns an error for the model. It ends the session if the
// server is of no further use. It reconnects to a remote server.
func (s *Session) mend(ctx, limited context.Context, err error) error {
	if _, refused := refusal(err); refused {
		s.late = 0
		return s.tell("%s", s.reason(err, s.server.Timeout))
	}
	closed := errors.Is(err, mcp.ErrConnectionClosed) || s.link.broken()
	if limited.Err() != nil && (!closed || s.server.URL != "") {
		return s.unanswered(limited)
	}
	if !closed { // the answer is not valid
		return s.tell("the answer of the tool server %s cannot be read: %s", s.server.Name, clip(err.Error(), maxNoise))
	}
	why := s.reason(err, s.server.Timeout)
	if s.server.URL == "" {
		s.end(why)
		return s.tell("the tool server %s has ended: %s%s", s.server.Name, why, unknown)
	}
	s.renew(ctx, why)
	return s.tell("the tool server %s failed: %s%s", s.server.Name, why, unknown)
}

const unknown = "; the call may have been done: check before you repeat it"

// unanswered returns the model's error for a call that timed out. It ends a server that leaves
// several calls in a row unanswered.
func (s *Session) unanswered(limited context.Context) error {
	why := s.reason(limited.Err(), s.server.Timeout)
	if s.late++; s.late < maxLate {
		return s.tell("the tool server %s: %s%s", s.server.Name, why, unknown)
	}
	s.end(fmt.Sprintf("it did not answer %d calls in a row", maxLate))
	return s.tell("the tool server %s: %s, and was ended, as it did not answer the calls before either%s", s.server.Name, why, unknown)
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
		s.gone = s.reason(err, s.server.Timeout)
	}
}

// tell returns an error for the model, with secrets redacted.
func (s *Session) tell(format string, args ...any) error {
	return errors.New(s.redact(fmt.Sprintf(format, args...)))
}
