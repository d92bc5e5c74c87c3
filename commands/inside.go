package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	ask(context.Context, cycle.Question) (id string, err error)
	send(ctx context.Context, to, text string) error
	sleep(ctx context.Context, d time.Duration, why string) error
	remind(ctx context.Context, when, text string) (time.Time, error)
	wakeups(context.Context) ([]cycle.Wakeup, error)
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

func (t ownTurn) ask(ctx context.Context, q cycle.Question) (string, error) {
	return t.agent.Ask(ctx, t.in, q)
}

func (t ownTurn) send(ctx context.Context, to, text string) error {
	return t.agent.Send(ctx, t.in, to, text)
}

func (t ownTurn) sleep(ctx context.Context, d time.Duration, why string) error {
	return t.agent.Sleep(ctx, t.in, d, why)
}

func (t ownTurn) remind(ctx context.Context, when, text string) (time.Time, error) {
	return t.agent.Remind(ctx, t.in, when, text)
}

func (t ownTurn) wakeups(context.Context) ([]cycle.Wakeup, error) { return t.agent.Wakeups(t.in) }

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

func (t relayedTurn) ask(ctx context.Context, q cycle.Question) (string, error) {
	r := relay.Request{Verb: relay.Ask, To: q.To, Text: q.Text, For: q.Patience}
	for _, f := range q.Fields {
		r.Wanted = append(r.Wanted, relay.Wanted(f))
	}
	return t.call(ctx, r)
}

func (t relayedTurn) send(ctx context.Context, to, text string) error {
	_, err := t.call(ctx, relay.Request{Verb: relay.Send, To: to, Text: text})
	return err
}

func (t relayedTurn) sleep(ctx context.Context, d time.Duration, why string) error {
	_, err := t.call(ctx, relay.Request{Verb: relay.Sleep, For: d, Text: why})
	return err
}

// remind has the runner read the time: the box may know another time zone.
func (t relayedTurn) remind(ctx context.Context, when, text string) (time.Time, error) {
	at, err := t.call(ctx, relay.Request{Verb: relay.Remind, When: when, Text: text})
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, at)
}

func (t relayedTurn) wakeups(ctx context.Context) ([]cycle.Wakeup, error) {
	text, err := t.call(ctx, relay.Request{Verb: relay.Wakeups})
	if err != nil {
		return nil, err
	}
	var rows []cycle.Wakeup
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return nil, fmt.Errorf("read the runner's answer: %w", err)
	}
	return rows, nil
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
