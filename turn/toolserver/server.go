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

// Server is an MCP server of the configuration: Command or URL is set.
type Server struct {
	Name    string        // without "__" in it, and without "_" at its end: see modelName
	Timeout time.Duration // of a call
	Version string        // ours

	// A local server runs in a box.
	Command []string
	Env     []string // its environment, with what EnvFiles holds
	Box     box.Box
	Way     box.Way

	EnvFiles map[string]Secret // variables that hold a secret

	// A remote one is spoken to by streamable HTTP. Token may be nil.
	URL   string
	Token Secret

	// Secrets are kept out of what the server says. It may be nil.
	Secrets *secret.Known

	// Keep keeps a picture that a tool returned, under a name without an extension. It
	// may be nil: no pictures.
	Keep func(name string, data []byte) (react.Shown, error)
}

// StartTimeout is how long a server may take to begin and to list its tools.
const StartTimeout = 30 * time.Second

// closeTimeout is how long a server may take to end after its input has ended.
const closeTimeout = time.Second

// Session is a server that was started, and the list of its tools.
type Session struct {
	server Server
	open   func(context.Context) (link, error) // makes the link
	tools  []*mcp.Tool                         // sorted by name
	notes  []string                            // what is wrong with the list
	ended  <-chan struct{}

	mu       sync.Mutex
	link     link
	session  *mcp.ClientSession
	gone     string // why no further call can be made, or ""
	late     int    // the last calls, in a row, that were not answered in time
	renewals int
	pictures int
}

// link is what lies below a session: a process in its box, or an address.
type link interface {
	transport() mcp.Transport

	// renew begins a call: the bounds on what the server may send count from here.
	renew()

	// broken reports whether no further answer can come.
	broken() bool

	// fault returns what is known of the reason why no answer came, or "".
	fault() string

	// close ends the link, whatever the server does. It returns soon.
	close()
}

// versions are the protocol versions with which a session is begun: that of the servers
// that exist, and the newest, for those that refuse it. A server that does not know the
// newest may take its first request amiss, and a server that knows it alone refuses the
// other at once.
var versions = []string{"2025-11-25", ""}

// Start starts a server, or connects to it, and lists its tools. The session must be
// closed. It also ends with ctx. An error says in words what went wrong, and nothing of
// the server is left.
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
		return s.failed("start", err)
	}
	if err := s.list(limited); err != nil {
		err = s.failed("list its tools", err)
		s.Close()
		return err
	}
	return nil
}

// failed returns the error of what was done with the server and failed.
func (s *Session) failed(what string, err error) error {
	return errors.New(s.redact(fmt.Sprintf("the tool server %s did not %s: %s", s.server.Name, what, s.reason(err, StartTimeout))))
}

// connect begins a session. The process of a local server lives as long as ctx;
// limited bounds the beginning.
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

// Close ends the session, and a local server with all that it has started: its input
// ends, and what still runs a second later is killed.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end("it was ended")
}

// end ends the session for good. s.mu is held.
func (s *Session) end(why string) {
	if s.gone != "" {
		return
	}
	s.gone = why
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
		return "it answered with the error " + clip(refusal.Message, maxWords)
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

// refusal returns the error with which a server answered. The library makes one of its
// own of a request that did not come through.
func refusal(err error) (*jsonrpc.Error, bool) {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	return answer, ok && answer.Message != "rejected by transport"
}

func (s *Session) redact(text string) string {
	return s.server.Secrets.Redact(text)
}

// maxWords bounds, in bytes, what is repeated of an error or of what a server prints.
const maxWords = 1000

// note returns the notes as one text, of which only the first are told.
func note(notes []string) string {
	const most = 5
	if more := len(notes) - most; more > 0 {
		notes = append(notes[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(notes, "; ")
}
