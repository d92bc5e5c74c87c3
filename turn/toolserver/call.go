package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxLate     = 3 // calls in a row that a server may leave without an answer
	maxRenewals = 3 // times that a turn connects to a remote server again
)

// call calls a tool once. The error is for the model: it says what is known of the call.
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

// mend returns what the model reads of a call that failed, and ends the session if
// nothing more can come of it. To a remote server it connects again.
func (s *Session) mend(ctx, limited context.Context, err error) error {
	if _, refused := refusal(err); refused {
		s.late = 0
		return s.tell("%s", s.reason(err, s.server.Timeout))
	}
	closed := errors.Is(err, mcp.ErrConnectionClosed) || s.link.broken()
	if limited.Err() != nil && (!closed || s.server.URL != "") {
		return s.unanswered(limited)
	}
	if !closed { // an answer that is not one
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

// unanswered returns what the model reads of a call that was not answered in time. A
// server that does not answer several of them in a row is ended.
func (s *Session) unanswered(limited context.Context) error {
	why := s.reason(limited.Err(), s.server.Timeout)
	if s.late++; s.late < maxLate {
		return s.tell("the tool server %s: %s%s", s.server.Name, why, unknown)
	}
	s.end(fmt.Sprintf("it did not answer %d calls in a row", maxLate))
	return s.tell("the tool server %s: %s, and was ended, as it did not answer the calls before either%s", s.server.Name, why, unknown)
}

// renew connects to a remote server again, so that the next call can reach it. Its
// sessions may end while it lives.
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

// tell returns an error for the model, without secrets.
func (s *Session) tell(format string, args ...any) error {
	return errors.New(s.redact(fmt.Sprintf(format, args...)))
}
