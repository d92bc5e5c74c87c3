package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"agentstateloop/internal/secret"
)

const (
	socketName = "socket"

	maxCalls       = 4                // concurrent calls; further ones wait
	requestTimeout = 10 * time.Second // to receive a request, and to send an answer
)

// Handler performs a request. Several goroutines call it.
type Handler func(context.Context, Request) Answer

// Server answers the commands of one attempt.
type Server struct {
	dir      *os.File
	listener net.Listener
	handle   Handler
	calls    sync.WaitGroup
	cancel   context.CancelFunc
}

// Listen creates the folder and serves in it until Close.
func Listen(folder string, secrets *secret.Known, handle Handler) (*Server, error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, fmt.Errorf("listen for the agent's commands: %w", err)
	}
	dir, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("listen for the agent's commands: %w", err)
	}
	listener, err := net.Listen("unix", address(dir))
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("listen for the agent's commands: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{dir: dir, listener: listener, handle: handle, cancel: cancel}
	s.calls.Add(1)
	go secrets.Guarded(func() {
		defer s.calls.Done()
		s.accept(ctx, secrets)
	})()
	return s, nil
}

// address returns the address of the socket in an open folder. The path of an attempt may be
// longer than the 107 bytes of a unix address.
func address(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketName) }

// Close ends the service. When it returns, every call has been answered or has failed, so the
// runner does no more work for the agent.
func (s *Server) Close() {
	s.listener.Close()
	s.cancel()
	s.calls.Wait()
	s.dir.Close()
}

// accept serves calls until the listener is closed.
func (s *Server) accept(ctx context.Context, secrets *secret.Known) {
	room := make(chan struct{}, maxCalls)
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select { // out of descriptors, for example
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			conn.Close()
			return
		}
		s.calls.Add(1)
		go secrets.Guarded(func() {
			defer s.calls.Done()
			defer func() { <-room }()
			s.answer(ctx, conn)
		})()
	}
}

// answer answers one call.
func (s *Server) answer(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) }) // a silent caller must not hold up Close
	defer stop()
	if err := conn.SetReadDeadline(time.Now().Add(requestTimeout)); err != nil {
		return
	}
	var r Request
	var a Answer
	if err := readMessage(conn, maxRequest, &r); err != nil {
		a = Answer{Error: err.Error()}
	} else {
		a = s.handle(ctx, r)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(requestTimeout)); err == nil {
		_ = writeMessage(conn, a) // on an error, the caller is gone
	}
}
