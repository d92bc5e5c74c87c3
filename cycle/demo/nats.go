package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/timeline"
	"agentstateloop/fleet"
	"agentstateloop/internal/capture"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// RunNATS plays a story of two agents on two hosts, connected by a nats-server. server is the
// path of that program. RunNATS starts it, and always stops it before it returns. Everything
// else is as in Run.
func RunNATS(ctx context.Context, out io.Writer, self, server string) error {
	dir, err := os.MkdirTemp("", "agentstateloop-demo-")
	if err != nil {
		return fmt.Errorf("create a folder for the demo: %w", err)
	}
	defer osfile.RemoveAll(dir)
	p := &pair{Timeline: &timeline.Timeline{Out: out, Now: morning(time.Now().UTC().AddDate(0, 0, -1))}}
	defer p.close()
	if err := p.start(ctx, dir, self, server); err != nil {
		return fmt.Errorf("start the demo's servers: %w", err)
	}
	if err := p.play(ctx); err != nil {
		return p.server.explain(err)
	}
	return nil
}

// pair is two agents on two hosts, and the server between them. Their clock starts yesterday.
// That is close enough, because a signature is valid for a week by the server's clock.
type pair struct {
	*timeline.Timeline
	server      *natsServer
	admin       userKey
	alpha, beta *stage
	bell        doorbell // of the agent on beta
}

// userKey is the key of a user of the server.
type userKey struct{ seed, public string }

func newUserKey() (k userKey, err error) {
	k.seed, k.public, err = fleet.NewKey()
	return k, err
}

func (k userKey) secret(context.Context) (string, error) { return k.seed, nil }

// start starts the servers and makes the agents.
func (p *pair) start(ctx context.Context, dir, self, server string) error {
	keys, users := map[string]userKey{}, map[string]string{}
	for _, h := range []string{handle, peer} {
		key, err := newUserKey()
		if err != nil {
			return err
		}
		keys[h], users[h] = key, key.public
	}
	var err error
	if p.admin, err = newUserKey(); err != nil {
		return err
	}
	if p.server, err = newNATSServer(server, dir, users, p.admin.public); err != nil {
		return err
	}
	if err := p.server.start(ctx); err != nil {
		return err
	}
	admin := &fleet.Conn{URL: p.server.url(), Seed: p.admin.secret}
	defer admin.Close()
	if err := p.server.create(ctx, admin, handle, peer); err != nil {
		return err
	}
	p.alpha = &stage{handle: handle, Lane: timeline.Lane{Timeline: p.Timeline, Host: "alpha", Phase: state.IDLE}}
	p.beta = &stage{handle: peer, Lane: timeline.Lane{Timeline: p.Timeline, Host: "beta", Phase: state.IDLE}}
	if err := p.meet(p.alpha, dir, self, keys[handle], peer, keys[peer]); err != nil {
		return err
	}
	return p.meet(p.beta, dir, self, keys[peer], handle, keys[handle])
}

// meet makes an agent that has a key, and that knows the public key of another agent.
func (p *pair) meet(s *stage, dir, self string, own userKey, other string, theirs userKey) error {
	home := filepath.Join(dir, s.Host)
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	client := p.client(s.handle, own)
	client.Host, client.Keys = s.Host, map[string]string{other: theirs.public}
	wired := &cycle.Mesh{Carrier: client, Handle: s.handle, Peers: []string{other}, Paces: true}
	if err := s.enter(home, self, s.handle+"@example.org", askingScript, wired); err != nil {
		return err
	}
	s.agent.RunTurn = s.attempt
	return nil
}

// client returns a mesh client for the owner of key.
func (p *pair) client(handle string, key userKey) *natsmesh.Client {
	return &natsmesh.Client{URL: p.server.url(), Handle: handle, Seed: key.secret, Timeout: 10 * time.Second}
}

func (p *pair) close() {
	p.bell.stop()
	for _, s := range []*stage{p.alpha, p.beta} {
		if s == nil {
			continue
		}
		if s.agent != nil {
			s.agent.Close()
		}
		s.close()
	}
	if p.server != nil {
		p.server.stop()
	}
}

// askingScript is the agent on both hosts. It writes its message for the other agent to the file
// ask or send.
const askingScript = `#!/bin/sh
cat >prompt
inside() { sed -n "/^<$1 /,/^<\/$1 /p" prompt | sed '1d;$d' | head -n 1; }
text=$(inside message)
report=$(inside report)
case "$text:$report" in
'Which commit is live?:') echo 'which commit is live?' >ask; echo 'I have asked.' ;;
'Which commit is live?:'*) echo "dorlange3120 says: $report" ;;
'Say that we deploy at noon.:'*) echo 'we deploy at noon' >send; echo 'I have passed it on.' ;;
'which commit is live?:'*) echo 'It is 4f22127.' ;;
*) echo "You wrote \"$text\". Consider it done." ;;
esac
`

// attempt runs the agent's script. It then handles the files ask and send like the commands
// `agentstateloop ask` and `agentstateloop send` of a turn.
func (s *stage) attempt(ctx context.Context, at turn.Attempt) (turn.Result, error) {
	result, err := s.agent.Turn.Run(ctx, at, nil)
	if err != nil {
		return result, err
	}
	inside, to := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}, s.agent.Mesh.Peers[0]
	if text, err := s.left("ask"); text != "" || err != nil {
		if err == nil {
			_, err = s.agent.Ask(ctx, inside, cycle.Question{To: to, Text: text, Patience: time.Hour})
		}
		return result, err
	}
	text, err := s.left("send")
	if text != "" {
		err = s.agent.Send(ctx, inside, to, text)
	}
	return result, err
}

// left reads and removes a file of the agent. It returns "" if the file does not exist.
func (s *stage) left(name string) (string, error) {
	file := filepath.Join(s.agent.Turn.Workdir, name)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), os.Remove(file)
}

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
