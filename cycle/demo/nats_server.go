package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/capture"
	"agentstateloop/internal/testkit"
)

// natsServer is a nats-server that belongs to the demo.
type natsServer struct {
	program string
	dir     string // holds its configuration, streams and log
	addr    string

	cmd   *exec.Cmd     // nil while the server is stopped
	ended chan struct{} // closed when cmd has ended
}

// newNATSServer writes the configuration of a server for these users and an administrator.
func newNATSServer(program, dir string, users map[string]string, admin string) (*natsServer, error) {
	port, err := testkit.FreePort()
	if err != nil {
		return nil, err
	}
	s := &natsServer{program: program, dir: dir, addr: "127.0.0.1:" + strconv.Itoa(port)}
	config, err := fleet.Plan{Servers: []string{s.addr}, Users: users, Admin: admin}.Config()
	if err != nil {
		return nil, err
	}
	return s, os.WriteFile(s.config(), []byte(config), 0o600)
}

func (s *natsServer) config() string { return filepath.Join(s.dir, "fleet.conf") }
func (s *natsServer) log() string    { return filepath.Join(s.dir, "nats-server.log") }
func (s *natsServer) url() string    { return "nats://" + s.addr }

// start starts the server with its stored data, and waits until it accepts connections.
func (s *natsServer) start(ctx context.Context) error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, ended := exec.Command(s.program, "-c", s.config()), make(chan struct{})
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // keeps Ctrl-C from the server; the demo stops it
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return s.failed(ctx.Err())
		case <-ended:
			return s.failed(errors.New("it ended"))
		case <-tick.C:
		}
	}
}

// failed returns an error with the end of the log.
func (s *natsServer) failed(err error) error {
	const lines = 5
	text, _ := os.ReadFile(s.log()) // the log may not exist yet
	last := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s: %w: %s", s.program, err, strings.Join(last[max(0, len(last)-lines):], "; "))
}

// explain adds to an error that the server has ended by itself, if so.
func (s *natsServer) explain(err error) error {
	if s.cmd == nil {
		return err
	}
	select {
	case <-s.ended:
		return fmt.Errorf("%w: %w", err, s.failed(errors.New("it ended")))
	default:
		return err
	}
}

// stop kills the server and waits for its end.
func (s *natsServer) stop() {
	if s.cmd == nil {
		return
	}
	_ = capture.KillGroup(s.cmd) // fails if the server has already ended
	<-s.ended
	s.cmd = nil
}

// create makes the streams and the mailboxes, like `fleet create`.
func (s *natsServer) create(ctx context.Context, admin *fleet.Conn, handles ...string) error {
	ask := func(ctx context.Context, subject string, body []byte) ([]byte, error) {
		a, err := admin.Request(ctx, subject, body, nil)
		return a.Data, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := fleet.Create(ctx, ask, fleet.Wanted{Handles: handles, Servers: 1})
		if _, refused := errors.AsType[*fleet.Refusal](err); err == nil || refused {
			return err
		}
		select {
		case <-ctx.Done():
			return s.failed(err)
		case <-tick.C: // the server's streams are not ready yet
		}
	}
}
