package cycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// What the agent does from inside its turn: submit, ask, send, sleep. Each is
// gated on (turn id, epoch), which the agent has in its environment: a process
// that outlived its turn can do nothing.

// Inside names the turn that a command of ours was called from.
type Inside struct {
	TurnID string
	Epoch  uint64
}

// ErrStale: the turn is over, or another attempt at it has begun.
var ErrStale = errors.New("this turn is over, or another attempt at it has begun: nothing was done")

// ErrSubmitted: a turn has one deliverable.
var ErrSubmitted = errors.New("this turn has submitted its deliverable already")

// submittedFile names a file of an attempt's folder for what is submitted:
// outside of the output box, since the agent may do there what it likes, and
// another one for each call, so that of two at once the second overwrites
// nothing.
func submittedFile() string { return "submitted." + store.NewID() + ".txt" }

// Submission is what `submit` hands over.
type Submission struct {
	Fields []Field
	Text   string
	File   string // a path; copied into the output box
}

// Field is one named result.
type Field struct{ Name, Value string }

// Submit sets the deliverable of the turn, once.
func (a *Agent) Submit(ctx context.Context, in Inside, sub Submission) error {
	s, err := a.mine(in)
	if err != nil {
		return err
	}
	if s.Turn.Submitted != "" {
		return ErrSubmitted
	}
	msg, _ := s.TurnMessage()
	w, err := a.load(s.Turn, msg)
	if err != nil {
		return err
	}
	if missing := w.missing(sub.Fields); len(missing) > 0 {
		return fmt.Errorf("the message asks for result fields that are missing: %s: add --field %s=…", strings.Join(missing, ", "), missing[0])
	}
	text, err := a.submission(w, sub)
	if err != nil {
		return err
	}
	file := submittedFile()
	if err := a.Store.KeepAmong(path.Join(w.dir(), file), strings.NewReader(text)); err != nil {
		return fmt.Errorf("keep what was submitted: %w", err)
	}
	s, err = a.commit(ctx, state.Submitted{TurnID: in.TurnID, Epoch: in.Epoch, Deliverable: file})
	if err != nil {
		return err
	}
	if err := in.check(s); err != nil {
		return err
	}
	if s.Turn.Submitted != file {
		return ErrSubmitted
	}
	return nil
}

// missing are the result fields that the message names and sub lacks.
func (w turnMessage) missing(fields []Field) []string {
	var missing []string
	for _, name := range w.sent.ResultFields {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			missing = append(missing, name)
		}
	}
	return missing
}

// submission is the text of a deliverable: the fields, a line each, and the
// words. The file goes into the output box, and so with the reply.
func (a *Agent) submission(w turnMessage, sub Submission) (string, error) {
	var b strings.Builder
	for _, f := range sub.Fields {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Value)
	}
	if sub.Text != "" {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(sub.Text)
	}
	if sub.File == "" {
		return b.String(), nil
	}
	name := filepath.Base(sub.File)
	from, err := os.Open(sub.File)
	if err != nil {
		return "", err
	}
	defer from.Close()
	box := a.Store.Path(path.Join(w.dir(), "output"))
	if abs, err := filepath.Abs(sub.File); err == nil && filepath.Dir(abs) == box {
		return b.String(), nil // it lies there already
	}
	root, err := os.OpenRoot(box)
	if err != nil {
		return "", fmt.Errorf("open output box: %w", err)
	}
	defer root.Close()
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("put %s into the output box: %w", name, err)
	}
	_, err = io.Copy(to, from)
	return b.String(), errors.Join(err, to.Close())
}

// DefaultPatience is how long a turn waits for a report.
const DefaultPatience = 10 * time.Minute

// Ask puts a question to another agent, and gives the tool call id under which
// its report will come. The question is durable before it leaves; the turn may
// end now and goes on, as the same turn, when every report is in or late.
func (a *Agent) Ask(ctx context.Context, in Inside, to, text string, patience time.Duration) (id string, err error) {
	e, err := a.outgoing(in, state.Question, to, text)
	if err != nil {
		return "", err
	}
	s, err := a.commit(ctx, state.Asked{TurnID: in.TurnID, Epoch: in.Epoch, Question: e, Patience: patience})
	if err != nil {
		return "", err
	}
	if err := in.check(s); err != nil {
		return "", err
	}
	return s.Turn.Waiting[len(s.Turn.Waiting)-1].ID, a.sendNow(ctx, s)
}

// Send puts a message to another agent that nobody waits for.
func (a *Agent) Send(ctx context.Context, in Inside, to, text string) error {
	e, err := a.outgoing(in, state.Post, to, text)
	if err != nil {
		return err
	}
	s, err := a.commit(ctx, state.Posted{TurnID: in.TurnID, Epoch: in.Epoch, Effect: e})
	if err != nil {
		return err
	}
	if err := in.check(s); err != nil {
		return err
	}
	return a.sendNow(ctx, s)
}

// outgoing makes the effect of a message to another agent: it carries the hops
// of the turn's cause, us added, so that no question can go round for ever.
func (a *Agent) outgoing(in Inside, kind state.EffectKind, to, text string) (state.Effect, error) {
	if a.Mesh == nil {
		return state.Effect{}, ErrNoMesh
	}
	if to == a.Handle {
		return state.Effect{}, errors.New("that is you")
	}
	if size := jsonSize(text); size > mostPosted {
		return state.Effect{}, fmt.Errorf("the text has %d bytes as JSON, and the mesh takes %d", size, mostPosted)
	}
	s, err := a.mine(in)
	if err != nil {
		return state.Effect{}, err
	}
	msg, _ := s.TurnMessage()
	w, err := a.load(s.Turn, msg)
	if err != nil {
		return state.Effect{}, err
	}
	if len(w.sent.Hops) >= mesh.MaxHops {
		return state.Effect{}, fmt.Errorf("this came over %d agents already, and must go no further", mesh.MaxHops)
	}
	return state.Effect{
		Kind: kind, Channel: state.ByMesh, To: to, Text: text, TurnID: in.TurnID,
		Hops: append(slices.Clone(w.sent.Hops), a.Handle),
	}, nil
}

// Sleep notes the agent's wish to be left alone. A message or a nudge ends it.
func (a *Agent) Sleep(ctx context.Context, in Inside, d time.Duration) error {
	s, err := a.commit(ctx, state.Slept{TurnID: in.TurnID, Epoch: in.Epoch, For: d})
	if err != nil {
		return err
	}
	return in.check(s)
}

// mine gives the state if the turn is still the caller's.
func (a *Agent) mine(in Inside) (state.State, error) {
	s, err := a.Store.Read()
	if err != nil {
		return s, err
	}
	return s, in.check(s)
}

func (in Inside) check(s state.State) error {
	if !s.Turn.Owns(in.TurnID, in.Epoch) || s.Turn.Status == state.HeadSuspended {
		return ErrStale
	}
	return nil
}
