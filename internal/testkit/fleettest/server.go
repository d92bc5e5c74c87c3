package fleettest

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
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
	cmd *exec.Cmd // nil while it does not run
}

// Start starts the server, with what it stored before, and waits until it takes
// connections.
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
	for end := time.Now().Add(patience); ; {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("nats-server %s does not start:\n%s", s.Name, s.Log())
		}
		time.Sleep(5 * time.Millisecond) // a server says in its log alone that it listens
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

// Restart is Kill and Start.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.Start()
}

// Stop stops the server, as a machine that hangs, and waits until all of it has stopped.
func (s *Server) Stop() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.PID(), &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		s.t.Fatalf("nats-server %s does not stop: %v", s.Name, err)
	}
}

// Continue lets it go on.
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

// Wipe removes all that the server has stored. It must not run.
func (s *Server) Wipe() {
	s.t.Helper()
	if err := os.RemoveAll(s.store); err != nil {
		s.t.Fatal(err)
	}
}

// PID returns the number of its process.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Log returns what the server has logged.
func (s *Server) Log() string {
	data, _ := os.ReadFile(s.store + ".log") // it may not have begun
	return string(data)
}
