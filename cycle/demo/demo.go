// Package demo plays a day in the life of an agent. It runs its own IMAP, SMTP and mesh servers
// on loopback, keeps the state directory and the crontab in a temporary folder, and sets the
// clock itself. Everything else is the real program.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/cycle/timeline"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// The names in the story.
const (
	handle   = "goulard3120"
	peer     = "dorlange3120"
	operator = "operator@example.com"
	address  = "artificer3120@example.org"
)

// ErrDeviates reports that the agent did not follow the story.
var ErrDeviates = errors.New("the agent deviated from its story")

// Run plays the day and prints it to out as a timeline. self is the path of this program, which
// the turns start again. runner is turn.Exec, for an agent that is a shell script, or turn.API,
// for our own loop with a scripted model. The error wraps ErrDeviates if the agent does not
// behave as docs/design.md, "The machine" describes.
func Run(ctx context.Context, out io.Writer, self, runner string) error {
	dir, err := os.MkdirTemp("", "agentstateloop-demo-")
	if err != nil {
		return fmt.Errorf("create a folder for the demo: %w", err)
	}
	defer osfile.RemoveAll(dir)
	s, err := newStage(dir, self, runner, out)
	if err != nil {
		return fmt.Errorf("start the demo's servers: %w", err)
	}
	defer s.close()
	return s.play(ctx)
}

// stage holds an agent, its servers, and the record of the lines already printed for it.
type stage struct {
	timeline.Lane
	handle string
	agent  *cycle.Agent
	mail   *mailtest.Servers
	mesh   *http.Server // nil if the story has another mesh
	peer   *mesh.Client
	table  string // path of the crontab file
	model  func() // stops the model; nil without a model

	// loop returns the command of a turn that begins now; nil if the command never changes.
	loop func() []string

	seen   int      // number of sent mails already printed
	line   string   // the last printed crontab line
	mailed []string // mails printed since the last call of expect
}

// morning returns nine o'clock of a day.
func morning(day time.Time) time.Time {
	return time.Date(day.Year(), day.Month(), day.Day(), 9, 0, 0, 0, time.UTC)
}

func newStage(dir, self, runner string, out io.Writer) (*stage, error) {
	s := &stage{handle: handle, Lane: timeline.Lane{
		Timeline: &timeline.Timeline{Out: out, Now: morning(time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC))}, Phase: state.IDLE,
	}}
	url, err := s.serveMesh()
	if err != nil {
		return nil, err
	}
	s.peer = &mesh.Client{URL: url, Handle: peer}
	wired := &cycle.Mesh{Carrier: &mesh.Client{URL: url, Handle: handle, Timeout: 10 * time.Second}, Handle: handle, Peers: []string{peer}, Open: true}
	if err := s.enter(dir, self, address, agentScript, wired); err != nil {
		s.close()
		return nil, err
	}
	if runner == turn.API {
		if err := s.serveModel(dir, self, url); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// enter makes the agent. Its mailbox, crontab and state are in dir.
func (s *stage) enter(dir, self, address, script string, wired *cycle.Mesh) error {
	var err error
	if s.mail, err = mailtest.Start(dir, mailtest.Options{Username: address}); err != nil {
		return err
	}
	command, table, err := crontest.Write(dir)
	if err != nil {
		return err
	}
	s.table = table
	program := filepath.Join(dir, "agent.sh")
	if err := testkit.WriteProgram(program, script); err != nil {
		return err
	}
	s.agent = s.newAgent(dir, self, command, program, wired)
	return nil
}

// agentScript is the agent of the demo. It reads the prompt and prints a one-line answer.
const agentScript = `#!/bin/sh
text=$(sed -n '/^<message [a-z0-9]*>$/,/^<\/message [a-z0-9]*>$/p' | sed '1d;$d' | head -n 1)
echo "You wrote \"$text\". Consider it done."
`

func (s *stage) serveMesh() (url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.mesh = mesh.NewServer(mesh.Options{Open: true, Now: func() time.Time { return s.Now }}).HTTPServer()
	go s.mesh.Serve(listener)
	return "http://" + listener.Addr().String(), nil
}

func (s *stage) close() {
	if s.mail != nil {
		s.mail.Close()
	}
	if s.mesh != nil {
		s.mesh.Close()
	}
	if s.model != nil {
		s.model()
	}
}

func (s *stage) newAgent(dir, self, crontab, script string, wired *cycle.Mesh) *cycle.Agent {
	clock := func() time.Time { return s.Now }
	secret := func(context.Context) (string, error) { return s.mail.Password, nil }
	imap := mail.Server{
		Addr: s.mail.IMAPTLS, TLS: mail.TLSImplicit, Auth: mail.AuthPlain,
		Username: s.mail.Username, Secret: secret, CAFile: s.mail.CAFile, Timeout: 10 * time.Second,
	}
	smtp := imap
	smtp.Addr = s.mail.SMTPTLS
	reply := func(text string) *template.Template { return template.Must(template.New("").Parse(text)) }
	return &cycle.Agent{
		Handle: s.handle,
		Config: "/home/you/.config/agentstateloop/agent.toml",
		Store:  &store.Store{Dir: filepath.Join(dir, "state"), Agent: s.handle},
		Policy: state.Policy{
			IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute,
			PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Cooldown: 5 * time.Minute,
			Location: time.UTC, HasMail: true, HasMesh: true, PacesMesh: wired.Paces, Operator: operator,
			Ack: true, QuietPrep: true, QuietActive: true, Notices: true, Working: true,
			Turns: true, SelfTurns: 10, MaxAttempts: 3,
		},
		Mail: &cycle.Mail{
			Mailbox: mail.Mailbox{Server: imap, Name: "INBOX", Now: clock},
			SMTP:    smtp,
			Filter:  trust.Filter{Handle: s.handle, Operators: []string{operator}, Own: s.mail.Username, Require: "from"},
			Address: s.mail.Username,
		},
		Mesh: wired,
		Schedule: cycle.Schedule{
			Mode:   cycle.ModeCrontab,
			Table:  cron.Table{Command: crontab, Lock: filepath.Join(dir, "crontab.lock"), Backup: filepath.Join(dir, "backup")},
			Binary: "/usr/local/bin/agentstateloop",
		},
		Turn: &turn.Config{Runner: turn.Exec, Command: []string{script}, Workdir: dir, Timeout: time.Minute, Self: self},
		Replies: cycle.Replies{
			Ack:         reply("{{.Handle}} standing by. what do you need?"),
			QuietPrep:   reply("going quiet"),
			QuietActive: reply("going quiet -- ping me when you need me"),
		},
		Now: clock,
	}
}

// clock returns a time of the day of a timeline.
func clock(t *timeline.Timeline, hhmm string) time.Time {
	at, err := time.Parse("15:04", hhmm)
	if err != nil {
		panic(err) // a mistake in the story
	}
	return time.Date(t.Now.Year(), t.Now.Month(), t.Now.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
}

func (s *stage) clock(hhmm string) time.Time { return clock(s.Timeline, hhmm) }

// cutLine is the number of bytes shown of a crontab line.
const cutLine = 48

// showPoll prints the effects of a poll: a change of phase, the mails, and a change of the
// crontab line.
func (s *stage) showPoll(r cycle.Report) error {
	line, err := s.installed()
	if err != nil {
		return err
	}
	if !r.Found() && line == s.line {
		s.Empty(1)
		return nil
	}
	s.ShowEmpty() // the empty polls belong to the earlier phase
	s.Phase = r.After
	if r.Before != r.After {
		s.Event(timeline.Between, "a poll moves the agent from %s to %s", r.Before, r.After)
	}
	for _, text := range s.sent() {
		s.mailed = append(s.mailed, text)
		s.Event(timeline.Out, "mail to the operator: %q", text)
	}
	if line != s.line {
		s.line = line
		s.Event(timeline.Between, "crontab: %.*s…", cutLine, line)
	}
	return nil
}

// sent returns the texts of the mails sent since its last call.
func (s *stage) sent() []string {
	all := s.mail.Sent()
	var texts []string
	for _, m := range all[s.seen:] {
		texts = append(texts, message.ReadContent(bytes.NewReader(m.Raw), message.Sent{}).Full)
	}
	s.seen = len(all)
	return texts
}

// takeMailed returns the mails printed since its last call.
func (s *stage) takeMailed() []string {
	mailed := s.mailed
	s.mailed = nil
	return mailed
}
