package fleettest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"agentstateloop/internal/testkit"
)

// Server is one nats-server.
type Server struct {
	Name string
	Addr string // host:port

	program, dir      string
	environment, args []string // as the plan starts it in dir
	t                 testing.TB

	mu  sync.Mutex
	cmd *exec.Cmd // nil while the server is down
}

func (s *Server) config() string { return filepath.Join(s.dir, "fleet.conf") }
func (s *Server) log() string    { return filepath.Join(s.dir, s.Name+".log") }

// store returns the folder of its stored messages. A single server has it from the configuration.
func (s *Server) store() string {
	if i := slices.Index(s.args, "-sd"); i >= 0 {
		return filepath.Join(s.dir, s.args[i+1])
	}
	return filepath.Join(s.dir, "nats")
}

// Start starts the server as the plan says, with its stored messages, and waits until it accepts connections.
func (s *Server) Start() {
	s.t.Helper()
	cmd := exec.Command(s.program, append(slices.Clone(s.args), "-l", s.log())...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.environment...)
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
	if err := os.RemoveAll(s.store()); err != nil {
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
	data, _ := os.ReadFile(s.log()) // the log may not exist yet
	return string(data)
}
