package commands

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/cycle"
	"agentstateloop/turn/relay"
)

// turnActions are what an agent does from inside its turn: as a process like ours,
// or through its runner if it runs in a box (docs/design.md, "The box of an agent").
type turnActions interface {
	handle() string // of the agent
	submit(context.Context, cycle.Submission) error
	ask(ctx context.Context, to, text string, patience time.Duration) (id string, err error)
	send(ctx context.Context, to, text string) error
	sleep(context.Context, time.Duration) error
	remember(ctx context.Context, text string) error
	search(ctx context.Context, query string, n int) (found string, err error)
}

// turn returns the actions of the turn from which this command was called.
func (l agents) turn(c *cli.Context) (turnActions, error) {
	in, err := l.parseInside(c)
	if err != nil {
		return nil, err
	}
	if folder := l.loader.Env("AGENTSTATELOOP_RELAY"); folder != "" {
		return relayedTurn{folder: folder, agent: l.loader.Env("AGENTSTATELOOP_HANDLE"), output: l.loader.Env("AGENTSTATELOOP_OUTPUT")}, nil
	}
	a, err := l.load(c)
	if err != nil {
		return nil, err
	}
	return ownTurn{a, in}, nil
}

// ownTurn acts by itself.
type ownTurn struct {
	agent *cycle.Agent
	in    cycle.Inside
}

func (t ownTurn) handle() string { return t.agent.Handle }

func (t ownTurn) submit(ctx context.Context, sub cycle.Submission) error {
	return t.agent.Submit(ctx, t.in, sub)
}

func (t ownTurn) ask(ctx context.Context, to, text string, patience time.Duration) (string, error) {
	return t.agent.Ask(ctx, t.in, to, text, patience)
}

func (t ownTurn) send(ctx context.Context, to, text string) error {
	return t.agent.Send(ctx, t.in, to, text)
}

func (t ownTurn) sleep(ctx context.Context, d time.Duration) error {
	return t.agent.Sleep(ctx, t.in, d)
}

func (t ownTurn) remember(ctx context.Context, text string) error {
	return t.agent.Remember(ctx, t.in, text)
}

func (t ownTurn) search(_ context.Context, query string, n int) (string, error) {
	return t.agent.SearchInside(t.in, query, n)
}

// relayedTurn has the runner act. Neither the configuration nor the state exists
// where it runs.
type relayedTurn struct {
	folder string // where the runner listens
	agent  string
	output string // the output box
}

func (t relayedTurn) handle() string { return t.agent }

// submit copies the file itself: the runner would read a path with rights that the
// box does not have.
func (t relayedTurn) submit(ctx context.Context, sub cycle.Submission) error {
	if !filepath.IsAbs(t.output) {
		return errors.New("the output box is unknown: $AGENTSTATELOOP_OUTPUT is missing")
	}
	if err := sub.CopyFile(t.output); err != nil {
		return err
	}
	r := relay.Request{Verb: relay.Submit, Text: sub.Text}
	for _, f := range sub.Fields {
		r.Fields = append(r.Fields, relay.Field(f))
	}
	_, err := t.call(ctx, r)
	return err
}

func (t relayedTurn) ask(ctx context.Context, to, text string, patience time.Duration) (string, error) {
	return t.call(ctx, relay.Request{Verb: relay.Ask, To: to, Text: text, For: patience})
}

func (t relayedTurn) send(ctx context.Context, to, text string) error {
	_, err := t.call(ctx, relay.Request{Verb: relay.Send, To: to, Text: text})
	return err
}

func (t relayedTurn) sleep(ctx context.Context, d time.Duration) error {
	_, err := t.call(ctx, relay.Request{Verb: relay.Sleep, For: d})
	return err
}

func (t relayedTurn) remember(ctx context.Context, text string) error {
	_, err := t.call(ctx, relay.Request{Verb: relay.Remember, Text: text})
	return err
}

func (t relayedTurn) search(ctx context.Context, query string, n int) (string, error) {
	return t.call(ctx, relay.Request{Verb: relay.Search, Text: query, Most: n})
}

// call returns the text of the answer, or the error in it.
func (t relayedTurn) call(ctx context.Context, r relay.Request) (string, error) {
	a, err := relay.Call(ctx, t.folder, r)
	if err != nil {
		return "", err
	}
	if a.Error != "" {
		return "", &relayedError{text: a.Error, hint: a.Hint, code: cmp.Or(a.Code, exitError)}
	}
	return a.Text, nil
}

// relayedError is an error that the runner met. The command reports it as it would
// have reported its own.
type relayedError struct {
	text, hint string
	code       int // the exit code
}

func (e *relayedError) Error() string { return e.text }

// Hint returns what to do next, or "".
func (e *relayedError) Hint() string { return e.hint }
