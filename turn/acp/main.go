package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/internal/secret"
	"agentstateloop/turn"
)

// Process is what turn.ACPCommand runs on.
type Process struct {
	Stdin  io.Reader // the prompt
	Stdout io.Writer // takes the events

	// Ask is that of Settings.
	Ask func(ctx context.Context, text string) (id string, err error)

	ExitWithin time.Duration // that of Settings

	Secrets *secret.Known // kept out of the report of a crash; nil: none are known
}

// Main runs turn.ACPCommand with its arguments: a turn, or a probe. When ctx ends, or
// when the runner wishes it, it ends the turn in order.
func (p Process) Main(ctx context.Context, args []string) error {
	var s turn.ACPSettings
	if len(args) < 2 || json.Unmarshal([]byte(args[0]), &s) != nil {
		return fmt.Errorf("%s is for agentstateloop's own use", turn.ACPCommand)
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	settings := Settings{
		Command: args[1:], Dir: dir, Version: s.Version, Session: s.Session, Grants: s.Grants, Options: s.Options, Settle: s.Settle, Linger: s.Linger, MayBeSilent: s.MayBeSilent,
		Ask: p.Ask, Emit: p.emit, Cancel: p.cancelled(ctx), ExitWithin: p.ExitWithin, Secrets: p.Secrets,
	}
	if s.Tools != nil {
		settings.Servers = []Server{serverOf(*s.Tools)}
	}
	if s.Probe {
		about, err := Probe(ctx, settings)
		if err != nil {
			return err
		}
		return json.NewEncoder(p.Stdout).Encode(about)
	}
	prompt, err := io.ReadAll(p.Stdin)
	if err != nil {
		return fmt.Errorf("read prompt: %w", err)
	}
	settings.Prompt = string(prompt)
	return Run(ctx, settings)
}

// serverOf returns the server of our tools as an agent gets to know it.
func serverOf(t turn.ACPTools) Server {
	server := Server{Name: t.Name, Command: t.Command, Args: t.Args, Env: []Variable{}}
	for _, name := range t.Variables {
		if value, ok := os.LookupEnv(name); ok {
			server.Env = append(server.Env, Variable{Name: name, Value: value})
		}
	}
	return server
}

func (p Process) emit(e turn.Event) {
	if line, err := json.Marshal(e); err == nil { // every Event can be marshalled
		fmt.Fprintf(p.Stdout, "%s\n", line)
	}
}

// cancelled returns a channel that is closed when the runner wishes the turn to end.
func (p Process) cancelled(ctx context.Context) <-chan struct{} {
	wished, cancel := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(wished, unix.SIGWINCH)
	go p.Secrets.Guarded(func() {
		defer close(cancel)
		select {
		case <-wished:
		case <-ctx.Done():
		}
	})()
	return cancel
}
