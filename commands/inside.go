package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/cycle/view"
	"agentstateloop/mesh"
	"agentstateloop/turn"
	"agentstateloop/turn/relay"
)

// turnActions are the actions of an agent inside its turn. A process like ours performs them
// itself; in a sandbox, the runner performs them (docs/design.md, "The box of an agent").
type turnActions interface {
	handle() string // of the agent
	submit(context.Context, cycle.Submission) error
	suspend(ctx context.Context, text string, patience time.Duration) (id string, err error)
	// ask and send open the files at these paths. q must not have files.
	ask(ctx context.Context, q cycle.Question, list []string) (id string, err error)
	askOperator(context.Context, cycle.OperatorQuestion) (id string, err error)
	permit(ctx context.Context, tool string, input json.RawMessage) (cycle.Permission, error)
	send(ctx context.Context, to, text string, list []string) error
	sleep(ctx context.Context, d time.Duration, why string) error
	remind(ctx context.Context, when, text string) (time.Time, error)
	wakeups(context.Context) ([]view.Wakeup, error)
	remember(ctx context.Context, text string) error
	search(ctx context.Context, query string, n int) (found string, err error)
}

// turn returns the actions of the turn that called this command.
func (c *call) turn() (turnActions, error) { return c.turnOf(c.load) }

// turnOf is turn with another way to load the agent, which a sandbox does not need.
func (c *call) turnOf(load func() (*cycle.Agent, error)) (turnActions, error) {
	in, err := c.inside()
	if err != nil {
		return nil, err
	}
	if relayed, ok := relayedTurnOf(c.loader); ok {
		return relayed, nil
	}
	a, err := load()
	if err != nil {
		return nil, err
	}
	return ownTurn{a, in}, nil
}

// relayedTurnOf returns the turn of this process. ok is false outside a sandbox.
func relayedTurnOf(l *config.Loader) (t relayedTurn, ok bool) {
	folder := l.Env("AGENTSTATELOOP_RELAY")
	return relayedTurn{folder: folder, agent: l.Env("AGENTSTATELOOP_HANDLE"), output: l.Env("AGENTSTATELOOP_OUTPUT"), outgoing: l.Env("AGENTSTATELOOP_OUTGOING")}, folder != ""
}

// ownTurn performs the actions itself.
type ownTurn struct {
	agent *cycle.Agent
	in    cycle.Inside
}

func (t ownTurn) handle() string { return t.agent.Handle }

func (t ownTurn) submit(ctx context.Context, sub cycle.Submission) error {
	return t.agent.Submit(ctx, t.in, sub)
}

func (t ownTurn) ask(ctx context.Context, q cycle.Question, list []string) (string, error) {
	opened, closeAll, err := files.Open(list)
	if err != nil {
		return "", err
	}
	defer closeAll()
	q.Files = opened
	return t.agent.Ask(ctx, t.in, q)
}

func (t ownTurn) askOperator(ctx context.Context, q cycle.OperatorQuestion) (string, error) {
	return t.agent.AskOperator(ctx, t.in, q)
}

func (t ownTurn) permit(ctx context.Context, tool string, input json.RawMessage) (cycle.Permission, error) {
	return t.agent.Permit(ctx, t.in, turn.ClaudeRequest(tool, input))
}

func (t ownTurn) send(ctx context.Context, to, text string, list []string) error {
	opened, closeAll, err := files.Open(list)
	if err != nil {
		return err
	}
	defer closeAll()
	return t.agent.Send(ctx, t.in, to, text, opened...)
}

func (t ownTurn) sleep(ctx context.Context, d time.Duration, why string) error {
	return t.agent.Sleep(ctx, t.in, d, why)
}

func (t ownTurn) remind(ctx context.Context, when, text string) (time.Time, error) {
	return t.agent.Remind(ctx, t.in, when, text)
}

func (t ownTurn) wakeups(context.Context) ([]view.Wakeup, error) { return t.agent.Wakeups(t.in) }

func (t ownTurn) remember(ctx context.Context, text string) error {
	return t.agent.Remember(ctx, t.in, text)
}

func (t ownTurn) search(_ context.Context, query string, n int) (string, error) {
	return t.agent.SearchInside(t.in, query, n)
}

func (t ownTurn) suspend(ctx context.Context, text string, patience time.Duration) (string, error) {
	return t.agent.Suspend(ctx, t.in, text, patience)
}

// relayedTurn asks the runner to perform the actions. Its sandbox has neither the configuration
// nor the state.
type relayedTurn struct {
	folder string // the runner reads requests here
	agent  string
	output string // the output folder

	// outgoing is the folder for copies of the files that go with a message. The runner cannot
	// read the original path: it has rights that the sandbox does not have.
	outgoing string
}

func (t relayedTurn) handle() string { return t.agent }

// submit copies the files itself, for the same reason as outgoing.
func (t relayedTurn) submit(ctx context.Context, sub cycle.Submission) error {
	if !filepath.IsAbs(t.output) {
		return errors.New("unknown output folder: $AGENTSTATELOOP_OUTPUT is missing")
	}
	if err := sub.CopyFiles(t.output); err != nil {
		return err
	}
	r := relay.Request{Verb: relay.Submit, Text: sub.Text, Finish: sub.Finish}
	for _, f := range sub.Fields {
		r.Fields = append(r.Fields, relay.Field(f))
	}
	_, err := t.call(ctx, r)
	return err
}

func (t relayedTurn) ask(ctx context.Context, q cycle.Question, list []string) (string, error) {
	names, remove, err := t.copyOut(list)
	if err != nil {
		return "", err
	}
	defer remove()
	r := relay.Request{Verb: relay.Ask, To: q.To, Text: q.Text, For: q.Patience, Files: names}
	for _, f := range q.Fields {
		r.Wanted = append(r.Wanted, relay.Wanted(f))
	}
	return t.call(ctx, r)
}

func (t relayedTurn) askOperator(ctx context.Context, q cycle.OperatorQuestion) (string, error) {
	return t.call(ctx, relay.Request{Verb: relay.AskOperator, Text: q.Text, Options: q.Options, For: q.Patience, Permit: q.Permit})
}

func (t relayedTurn) permit(ctx context.Context, tool string, input json.RawMessage) (p cycle.Permission, err error) {
	text, err := t.call(ctx, relay.Request{Verb: relay.Permit, Tool: tool, Input: input})
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("read the runner's answer: %w", err)
	}
	return p, nil
}

func (t relayedTurn) send(ctx context.Context, to, text string, list []string) error {
	names, remove, err := t.copyOut(list)
	if err != nil {
		return err
	}
	defer remove()
	_, err = t.call(ctx, relay.Request{Verb: relay.Send, To: to, Text: text, Files: names})
	return err
}

// copyOut copies files into a new folder for the runner, and returns their names there. remove
// removes the copies.
func (t relayedTurn) copyOut(list []string) (names []string, remove func(), err error) {
	if len(list) == 0 {
		return nil, func() {}, nil
	}
	if !filepath.IsAbs(t.outgoing) {
		return nil, nil, errors.New("unknown folder for outgoing files: $AGENTSTATELOOP_OUTGOING is missing")
	}
	opened, closeAll, err := files.Open(list)
	if err != nil {
		return nil, nil, err
	}
	defer closeAll()
	dir, err := os.MkdirTemp(t.outgoing, "")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	for i, f := range opened {
		// Two files may have the same name.
		name := filepath.Join(filepath.Base(dir), strconv.Itoa(i), f.Name)
		if err := copyFile(filepath.Join(t.outgoing, name), f.Body); err != nil {
			remove()
			return nil, nil, fmt.Errorf("copy %s: %w", f.Name, err)
		}
		names = append(names, name)
	}
	return names, remove, nil
}

func copyFile(to string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.LimitReader(from, mesh.MaxFile+1))
	return errors.Join(err, f.Close())
}

func (t relayedTurn) sleep(ctx context.Context, d time.Duration, why string) error {
	_, err := t.call(ctx, relay.Request{Verb: relay.Sleep, For: d, Text: why})
	return err
}

// remind lets the runner parse the time, because the sandbox may have another time zone.
func (t relayedTurn) remind(ctx context.Context, when, text string) (time.Time, error) {
	at, err := t.call(ctx, relay.Request{Verb: relay.Remind, When: when, Text: text})
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, at)
}

func (t relayedTurn) wakeups(ctx context.Context) ([]view.Wakeup, error) {
	text, err := t.call(ctx, relay.Request{Verb: relay.Wakeups})
	if err != nil {
		return nil, err
	}
	var rows []view.Wakeup
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

func (t relayedTurn) suspend(ctx context.Context, text string, patience time.Duration) (string, error) {
	return t.call(ctx, relay.Request{Verb: relay.Suspend, Text: text, For: patience})
}

// call returns the text of the answer, or its error.
func (t relayedTurn) call(ctx context.Context, r relay.Request) (string, error) {
	a, err := relay.Call(ctx, t.folder, r)
	if err != nil {
		return "", err
	}
	if a.Error != "" {
		return "", &relayedError{text: a.Error, hint: a.Hint, kind: a.Kind, code: cmp.Or(a.Code, exitError)}
	}
	return a.Text, nil
}

// relayedError is an error from the runner. The command reports it like its own.
type relayedError struct {
	text, hint string
	kind       string // error code; "" from an older runner
	code       int    // exit code
}

func (e *relayedError) Error() string { return e.text }

// Hint returns the hint, or "".
func (e *relayedError) Hint() string { return e.hint }
