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

// Process is the environment of turn.ACPCommand.
type Process struct {
	Stdin  io.Reader // the prompt
	Stdout io.Writer // receives the events

	// Ask is Settings.Ask.
	Ask func(ctx context.Context, text string) (id string, err error)

	ExitWithin time.Duration // Settings.ExitWithin

	Secrets *secret.Known // kept out of crash reports; may be nil
}

// Main runs turn.ACPCommand with its arguments: a turn, or a probe. It ends the turn cleanly when
// ctx ends or the runner sends its signal.
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

// serverOf returns the server of our tools in the form of the protocol, with the values of its
// variables.
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

// cancelled returns a channel that is closed when the runner asks to end the turn, or when ctx
// ends.
func (p Process) cancelled(ctx context.Context) <-chan struct{} {
	stop, cancel := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(stop, unix.SIGWINCH)
	go p.Secrets.Guarded(func() {
		defer close(cancel)
		select {
		case <-stop:
		case <-ctx.Done():
		}
	})()
	return cancel
}
