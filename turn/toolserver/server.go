package toolserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentstateloop/internal/secret"
	"agentstateloop/turn/box"
	"agentstateloop/turn/react"
)

// Secret reads a secret.
type Secret = func(context.Context) (string, error)

// Server is a configured MCP server. Either Command or URL is set.
type Server struct {
	Name    string        // contains no "__" and does not end in "_": see modelName
	Timeout time.Duration // of a call
	Version string        // of agentstateloop

	// A local server runs in a sandbox.
	Command []string
	Env     []string // its environment; EnvFiles are added
	Box     box.Box
	Way     box.Way

	EnvFiles map[string]Secret // values of environment variables that are secrets

	// A remote server speaks streamable HTTP. Token may be nil.
	URL   string
	Token Secret

	// Secrets are redacted from the server's output. It may be nil.
	Secrets *secret.Known

	// Keep keeps a picture that a tool returned, under a name without an extension. If Keep is
	// nil, pictures are not shown.
	Keep func(name string, data []byte) (react.ShownFile, error)
}

// StartTimeout is how long a server may take to start and list its tools.
const StartTimeout = 30 * time.Second

// closeTimeout is how long a server may take to end after its input has ended.
const closeTimeout = time.Second

// Session is a started server and the list of its tools.
type Session struct {
	server Server
	open   func(context.Context) (link, error) // makes the link
	tools  []*mcp.Tool                         // sorted by name
	notes  []string                            // faults of the list
	ended  <-chan struct{}

	mu         sync.Mutex
	link       link
	session    *mcp.ClientSession
	endReason  string // why the session is over, or ""
	unanswered int    // number of last calls in a row that timed out
	renewals   int
	pictures   int
}

// link is the connection below a session: a process in its sandbox, or a remote address.
type link interface {
	transport() mcp.Transport

	// renew begins a call: the limits on the server's output count from here.
	renew()

	// broken reports whether the link can bring no further answer.
	broken() bool

	// fault describes why an answer is missing, as far as it is known, or returns "".
	fault() string

	// close ends the link, even if the server does not cooperate. It returns soon.
	close()
}

// versions are the protocol versions with which to begin a session, in order: first the version
// of most servers, then the newest, for servers that refuse the first. A server that does not
// know the newest version may misread its first request. A server that knows only the newest
// refuses the other at once.
var versions = []string{"2025-11-25", ""}

// Start starts a server, or connects to it, and lists its tools. The caller must close the
// session, which also ends with ctx. An error explains the failure in words; Start has then
// ended the server.
func Start(ctx context.Context, s Server) (*Session, error) {
	session := &Session{server: s, open: s.open, ended: ctx.Done()}
	if err := session.start(ctx); err != nil {
		return nil, err
	}
	return session, nil
}

// start connects the session and lists the tools.
func (s *Session) start(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	if err := s.connect(ctx, limited); err != nil {
		return s.startError("start", err)
	}
	if err := s.list(limited); err != nil {
		err = s.startError("list its tools", err)
		s.Close()
		return err
	}
	return nil
}

// startError returns the error of a failed step; what names the step.
func (s *Session) startError(what string, err error) error {
	return errors.New(s.redact(fmt.Sprintf("the tool server %s did not %s: %s", s.server.Name, what, s.reason(err, StartTimeout))))
}

// connect begins a session. The process of a local server lives as long as ctx. limited bounds
// the time to connect.
func (s *Session) connect(ctx, limited context.Context) (err error) {
	for _, version := range versions {
		if s.link, err = s.open(ctx); err != nil {
			return err
		}
		client := mcp.NewClient(&mcp.Implementation{Name: "agentstateloop", Version: s.server.Version}, &mcp.ClientOptions{
			Capabilities: &mcp.ClientCapabilities{}, // no roots, no sampling, no questions to a person
			Logger:       slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		s.session, err = client.Connect(limited, s.link.transport(), &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err == nil {
			return nil
		}
		s.link.close()
		if _, refused := refusal(err); !refused {
			return err
		}
	}
	return err
}

// open opens the link to a server.
func (s Server) open(ctx context.Context) (link, error) {
	if s.URL != "" {
		return s.dial(ctx)
	}
	return s.spawn(ctx)
}

// Close ends the session. For a local server it closes the input, and a second later kills all
// remaining processes of the server.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end("it was ended")
}

// end ends the session for good. The caller holds s.mu.
func (s *Session) end(why string) {
	if s.endReason != "" {
		return
	}
	s.endReason = why
	s.disconnect()
}

// disconnect ends the session and its link.
func (s *Session) disconnect() {
	closed := make(chan struct{})
	go s.server.Secrets.Guarded(func() {
		defer close(closed)
		_ = s.session.Close()
	})()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	case <-s.ended:
	}
	s.link.close()
}

// reason returns in words why a request was not answered.
func (s *Session) reason(err error, limit time.Duration) string {
	why := ""
	if s.link != nil {
		why = s.link.fault()
	}
	refusal, refused := refusal(err)
	switch {
	case refused:
		return "it returned the error " + clip(refusal.Message, maxWords)
	case errors.Is(err, context.DeadlineExceeded) && why == "":
		return fmt.Sprintf("it did not answer within %v", limit)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("it did not answer within %v (%s)", limit, why)
	case why != "":
		return why
	case errors.Is(err, context.Canceled):
		return "it was ended"
	}
	return clip(err.Error(), maxWords)
}

// refusal returns the error that a server answered, if err is one. The library makes an error
// of the same type for a request that did not get through; that is not a refusal.
func refusal(err error) (*jsonrpc.Error, bool) {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	return answer, ok && answer.Message != "rejected by transport"
}

func (s *Session) redact(text string) string {
	return s.server.Secrets.Redact(text)
}

// maxWords bounds, in bytes, a quoted error or output of a server.
const maxWords = 1000

// joinNotes joins the notes, at most the first few of them.
func joinNotes(notes []string) string {
	const most = 5
	if more := len(notes) - most; more > 0 {
		notes = append(notes[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(notes, "; ")
}
