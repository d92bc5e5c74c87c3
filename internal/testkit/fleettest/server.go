package fleettest

import (
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"agentstateloop/internal/testkit"
)

// Server is one nats-server.
type Server struct {
	Name string
	Addr string // host:port

	port                   int
	program, config, store string
	clustered              bool
	t                      testing.TB

	mu  sync.Mutex
	cmd *exec.Cmd // nil while the server is down
}

// Start starts the server with its stored messages, and waits until it accepts connections.
func (s *Server) Start() {
	s.t.Helper()
	args := []string{"-c", s.config, "-n", s.Name, "-p", strconv.Itoa(s.port), "-sd", s.store, "-l", s.store + ".log"}
	if s.clustered {
		args = append(args, "--cluster", "nats://127.0.0.1:"+strconv.Itoa(s.port+besideForRoutes))
	}
	cmd := exec.Command(s.program, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.cmd = cmd
	s.mu.Unlock()
	if err := testkit.Listens(s.Addr, patience); err != nil { // the server announces only in its log that it listens
		s.t.Fatalf("nats-server %s does not start: %v\n%s", s.Name, err, s.Log())
	}
}

// Kill ends the server at once.
func (s *Server) Kill() {
	s.mu.Lock()
	cmd := s.cmd
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// Stop stops the process with SIGSTOP, as a machine that hangs, and waits until all threads have
// stopped.
func (s *Server) Stop() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.PID(), &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		s.t.Fatalf("nats-server %s does not stop: %v", s.Name, err)
	}
}

// Continue resumes the process.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Fatalf("nats-server %s does not run", s.Name)
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Wipe removes the stored messages. The server must be down.
func (s *Server) Wipe() {
	s.t.Helper()
	if err := os.RemoveAll(s.store); err != nil {
		s.t.Fatal(err)
	}
}

// PID returns the number of its process, or 0 if it is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Log returns the log of the server.
func (s *Server) Log() string {
	data, _ := os.ReadFile(s.store + ".log") // the log may not exist yet
	return string(data)
}
