package cycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/cycle/files"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// The agent can submit, ask, send and sleep from inside its turn. Each call checks the turn's
// id and epoch, which the agent has in its environment. So a process that outlives its turn has
// no effect.

// Inside identifies the turn that one of our commands was called from.
type Inside struct {
	TurnID string
	Epoch  uint64
}

// ErrStale means that the turn is over, or another attempt at it has begun.
var ErrStale = errors.New("this turn is over, or another attempt at it has begun: nothing was done")

// ErrSubmitted means that the turn has submitted its one deliverable.
var ErrSubmitted = errors.New("this turn has already submitted its deliverable")

// state returns the state, with ErrStale unless the turn is still the caller's, and with the reason
// if another host acts.
func (in Inside) state(c core) (state.State, error) {
	if err := c.acts(); err != nil {
		return state.State{}, err
	}
	s, err := c.store.Read()
	if err != nil {
		return s, err
	}
	return s, in.check(s)
}

// check returns ErrStale unless the turn of s is the caller's.
func (in Inside) check(s state.State) error {
	if !s.Turn.Owns(in.TurnID, in.Epoch) || s.Turn.Status == state.HeadSuspended {
		return ErrStale
	}
	return nil
}

// Submission is the deliverable that `submit` hands over.
type Submission struct {
	Fields []Field
	Text   string
	Files  []string // paths of files to copy into the output folder
	Finish bool     // the runner ends the turn at once
}

// Submit sets the deliverable of the turn. It returns ErrSubmitted if the turn has one already.
func (a *Agent) Submit(ctx context.Context, in Inside, sub Submission) error {
	s, err := in.state(a.core())
	if err != nil {
		return err
	}
	if s.Turn.Submitted != "" {
		return ErrSubmitted
	}
	msg, _ := s.TurnMessage()
	m, err := readMessage(a.Store, s.Turn, msg)
	if err != nil {
		return err
	}
	fields, err := typedFields(m.sent.ResultFields, sub.Fields)
	if err != nil {
		return err
	}
	if err := sub.CopyFiles(a.Store.Path(path.Join(m.dir(), "output"))); err != nil {
		return err
	}
	data, err := json.Marshal(deliverableBody{Text: sub.Text, Fields: fields})
	if err != nil {
		return err
	}
	file := submittedFile()
	if err := a.Store.KeepAmong(path.Join(m.dir(), file), bytes.NewReader(data)); err != nil {
		return fmt.Errorf("save submission: %w", err)
	}
	s, err = a.journal().commit(ctx, state.Submitted{TurnID: in.TurnID, Epoch: in.Epoch, Deliverable: file, Sum: store.Sum(data), Finish: sub.Finish})
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

// CopyFiles copies the files into the output folder, so that they go with the reply.
func (sub Submission) CopyFiles(box string) error {
	names := map[string]bool{}
	for _, file := range sub.Files {
		switch name := filepath.Base(file); {
		case names[name]:
			return fmt.Errorf("two files are named %s", name)
		case isDeliverable(name):
			return fmt.Errorf("%s is the name of the deliverable: rename the file", name)
		}
		names[filepath.Base(file)] = true
		if err := copyInto(box, file); err != nil {
			return err
		}
	}
	return nil
}

func copyInto(box, file string) error {
	name := filepath.Base(file)
	// Without O_NONBLOCK a named pipe would hang us.
	from, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", file)
	}
	root, err := os.OpenRoot(box)
	if err != nil {
		return fmt.Errorf("open output folder: %w", err)
	}
	defer root.Close()
	if there, err := root.Stat(name); err == nil && os.SameFile(info, there) {
		return syncInto(root, from) // the file is there already, whatever path leads to it
	}
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("copy %s into the output folder: %w", name, err)
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = syncInto(root, to)
	}
	return errors.Join(err, to.Close())
}

// syncInto makes a file of the output folder durable. The commit that follows records that the
// turn has handed it over.
func syncInto(box *os.Root, f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	dir, err := box.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Question is a question of a turn to another agent.
type Question struct {
	To, Text string
	Fields   mesh.ResultFields // that its report must have
	Files    []files.OpenFile
	Patience time.Duration // the longest wait for the report
}

// Ask puts a question to another agent, and returns the tool call id of the coming report. The
// question is durable before it is sent. The turn may end now; the same turn goes on when every
// report has come or is late.
func (a *Agent) Ask(ctx context.Context, in Inside, q Question) (id string, err error) {
	if err := state.CheckResultFields(q.Fields); err != nil {
		return "", err
	}
	e, err := a.outgoing().message(in, state.Question, q.To, q.Text)
	if err != nil {
		return "", err
	}
	e.ResultFields = q.Fields
	if err := a.outgoing().attach(&e, q.Files); err != nil {
		return "", err
	}
	s, err := a.journal().commit(ctx, state.Asked{TurnID: in.TurnID, Epoch: in.Epoch, Question: e, Patience: q.Patience})
	if err != nil {
		return "", err // the commit may have counted, so its files stay until they are pruned
	}
	if err := in.check(s); err != nil {
		a.outgoingFiles().Drop(e.Files)
		return "", err
	}
	return s.Turn.Waiting[len(s.Turn.Waiting)-1].ID, a.flusher().sendNow(ctx, s)
}

// Send sends a message to another agent. The turn does not wait for an answer.
func (a *Agent) Send(ctx context.Context, in Inside, to, text string, list ...files.OpenFile) error {
	e, err := a.outgoing().message(in, state.Post, to, text)
	if err != nil {
		return err
	}
	if err := a.outgoing().attach(&e, list); err != nil {
		return err
	}
	s, err := a.journal().commit(ctx, state.Posted{TurnID: in.TurnID, Epoch: in.Epoch, Effect: e})
	if err != nil {
		return err
	}
	if err := in.check(s); err != nil {
		a.outgoingFiles().Drop(e.Files)
		return err
	}
	return a.flusher().sendNow(ctx, s)
}

// attach keeps the files of a message.
func (o outgoing) attach(e *state.Effect, list []files.OpenFile) (err error) {
	if e.Files, err = (files.Outgoing{Store: o.store}).Keep(list); err != nil {
		return err
	}
	if err := fits(*e); err != nil {
		files.Outgoing{Store: o.store}.Drop(e.Files)
		return err
	}
	return nil
}

// outgoing makes a turn's messages to other agents.
type outgoing struct {
	core
	mesh *Mesh // nil: no mesh is configured
}

func (a *Agent) outgoing() outgoing { return outgoing{core: a.core(), mesh: a.Mesh} }

// message returns the effect of a message to another agent. It carries the hops of the turn's
// cause and our own, so that a question cannot circulate for ever.
func (o outgoing) message(in Inside, kind state.EffectKind, to, text string) (state.Effect, error) {
	if o.mesh == nil {
		return state.Effect{}, ErrNoMesh
	}
	if to == o.handle {
		return state.Effect{}, errors.New("an agent cannot send itself a message")
	}
	s, err := in.state(o.core)
	if err != nil {
		return state.Effect{}, err
	}
	msg, _ := s.TurnMessage()
	m, err := readMessage(o.store, s.Turn, msg)
	if err != nil {
		return state.Effect{}, err
	}
	if len(m.sent.Hops) >= mesh.MaxHops {
		return state.Effect{}, fmt.Errorf("this message has passed through %d agents, which is the limit", mesh.MaxHops)
	}
	e := state.Effect{
		Kind: kind, Channel: state.ByMesh, To: to, Text: text, TurnID: in.TurnID,
		Hops: append(slices.Clone(m.sent.Hops), o.handle),
	}
	return e, fits(e)
}

// fits returns an error if the message of an effect is too large for the mesh.
func fits(e state.Effect) error {
	size := jsonSize(e.Text)
	if len(e.ResultFields) > 0 {
		fields, err := mesh.ResultFields(e.ResultFields).MarshalJSON()
		if err != nil {
			return err
		}
		size += len(fields)
	}
	if room := roomFor(files.ForMesh(e.Files)); size > room {
		return fmt.Errorf("the message has %d bytes as JSON, and the limit is %d", size, room)
	}
	return nil
}

func (a *Agent) outgoingFiles() files.Outgoing { return files.Outgoing{Store: a.Store} }
