package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
	"agentstateloop/turn/relay"
)

// relayVariable names the folder in which a runner listens for the commands of its sandboxed
// agent.
const relayVariable = "AGENTSTATELOOP_RELAY"

// outgoingVariable names the folder into which a command in the sandbox copies the files of a
// message. It is in the attempt's folder, under the name outgoingFolder.
const (
	outgoingVariable = "AGENTSTATELOOP_OUTGOING"
	outgoingFolder   = "outgoing"
)

// openOutgoing opens files that a command in the sandbox has copied into that folder. Names
// cannot lead out of it, not even through links.
func openOutgoing(st *store.Store, in Inside, names []string) (list []files.OpenFile, closeAll func(), err error) {
	if len(names) == 0 {
		return nil, func() {}, nil
	}
	dir := path.Join(store.AttemptDir(in.TurnID, in.Epoch), outgoingFolder)
	if err := st.CheckFolders(path.Join(dir, "file")); err != nil {
		return nil, nil, err
	}
	return files.OpenIn(st.Path(dir), names)
}

// runWithRelay runs an attempt whose agent is in a sandbox: its commands reach this process through
// a relay. The relay ends when runWithRelay returns, even if the agent's process lives on.
func (l launcher) runWithRelay(ctx context.Context, c *turn.Config, at turn.Attempt) (turn.Result, error) {
	folder := filepath.Join(at.Dir, "relay")
	in := Inside{TurnID: at.TurnID, Epoch: at.Epoch}
	server, err := relay.Listen(folder, c.Secrets, func(ctx context.Context, r relay.Request) relay.Answer {
		return l.answer(ctx, c.Secrets, in, r)
	})
	if err != nil {
		return turn.Result{}, err
	}
	defer server.Close()
	outgoing := filepath.Join(at.Dir, outgoingFolder)
	if err := os.Mkdir(outgoing, 0o700); err != nil {
		return turn.Result{}, fmt.Errorf("prepare attempt: %w", err)
	}
	at.Env[relayVariable], at.Env[outgoingVariable] = folder, outgoing
	at.Write = append(at.Write, outgoing)
	at.Read = append(at.Read, folder)
	return c.Answer(ctx, at, turn.NewFeed(at.Dir).Watch)
}

// answer returns the output of a command in the sandbox. Outside, the command's own process
// redacts its output; in the sandbox that process does not know the secrets.
func (l launcher) answer(ctx context.Context, secrets *secret.Known, in Inside, r relay.Request) relay.Answer {
	text, err := l.relay(ctx, in, r)
	if err == nil {
		return relay.Answer{Text: secrets.Redact(text)}
	}
	a := relay.Answer{Error: err.Error()}
	if l.explain != nil {
		a.Hint, a.Kind, a.Code = l.explain(err)
	}
	a.Error, a.Hint = secrets.Redact(a.Error), secrets.Redact(a.Hint)
	return a
}

// Relay runs a command that a sandboxed agent requests from inside its turn, and returns the
// command's output. It repeats the commands' checks of their arguments: the agent can speak to
// us itself, without the commands.
func (a *Agent) Relay(ctx context.Context, in Inside, r relay.Request) (text string, err error) {
	r.For = max(r.For, 0)
	if r.Verb == relay.Ask || r.Verb == relay.Send {
		if !state.ValidHandle(r.To) {
			return "", fmt.Errorf("%q is not a valid handle", r.To)
		}
		if strings.TrimSpace(r.Text) == "" {
			return "", errors.New("the message is empty")
		}
	}
	list, closeAll, err := openOutgoing(a.Store, in, r.Files)
	if err != nil {
		return "", err
	}
	defer closeAll()
	switch r.Verb {
	case relay.Submit:
		sub := Submission{Text: r.Text, Finish: r.Finish}
		for _, f := range r.Fields {
			sub.Fields = append(sub.Fields, Field(f))
		}
		return "", a.Submit(ctx, in, sub)
	case relay.Suspend:
		return a.Suspend(ctx, in, r.Text, r.For)
	case relay.Ask:
		q := Question{To: r.To, Text: r.Text, Files: list, Patience: r.For}
		for _, w := range r.Wanted {
			q.Fields = append(q.Fields, state.ResultField(w))
		}
		return a.Ask(ctx, in, q)
	case relay.AskOperator:
		return a.AskOperator(ctx, in, OperatorQuestion{Text: r.Text, Options: r.Options, Patience: r.For, Permit: r.Permit})
	case relay.Permit:
		p, err := a.Permit(ctx, in, turn.ClaudeRequest(r.Tool, r.Input))
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(p)
		return string(text), err
	case relay.Send:
		return "", a.Send(ctx, in, r.To, r.Text, list...)
	case relay.Sleep:
		return "", a.Sleep(ctx, in, r.For, r.Text)
	case relay.Remind:
		at, err := a.Remind(ctx, in, r.When, r.Text)
		return at.Format(time.RFC3339), err
	case relay.Wakeups:
		rows, err := a.Wakeups(in)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(rows)
		return string(text), err
	case relay.Remember:
		return "", a.Remember(ctx, in, r.Text)
	case relay.Search:
		return a.SearchInside(in, r.Text, r.Most)
	}
	return "", fmt.Errorf("%q is not a command that an agent can call in its turn", r.Verb)
}
