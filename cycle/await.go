package cycle

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// What the agent does from inside its turn to wait for something that it starts
// outside of it (docs/design.md, "Suspension").

// awaitsSubmit is the What of a wait that the agent itself has begun.
const awaitsSubmit = "submit"

// Awaiting is something that reports later by its id.
type Awaiting struct {
	What     string // "tool deploy", or "submit"
	Text     string // what the turn says of it
	Peers    []string
	Patience time.Duration
}

// AwaitReport commits that the turn waits for a report, and returns the id that the
// report must repeat. The turn may end now; it goes on, as the same turn, when every
// report has come or is late.
func (a *Agent) AwaitReport(ctx context.Context, in Inside, w Awaiting) (id string, err error) {
	return a.awaiter().await(ctx, in, state.Awaited{What: w.What, Text: w.Text, Peers: w.Peers, Patience: w.Patience})
}

// WithdrawReport takes back what AwaitReport has committed.
func (a *Agent) WithdrawReport(ctx context.Context, in Inside, id, reason string) error {
	s, err := a.journal().commit(ctx, state.Withdrawn{TurnID: in.TurnID, Epoch: in.Epoch, ID: id, Reason: reason})
	if err != nil {
		return err
	}
	return in.check(s)
}

// Finish records that the turn ends with this attempt, whatever it waits for.
func (a *Agent) Finish(ctx context.Context, in Inside) error {
	s, err := a.journal().commit(ctx, state.Finished{TurnID: in.TurnID, Epoch: in.Epoch})
	if err != nil {
		return err
	}
	return in.check(s)
}

// Suspend lets the turn wait for a report, as `submit --after suspend` does. The text is
// kept as what the turn has said.
func (a *Agent) Suspend(ctx context.Context, in Inside, text string, patience time.Duration) (id string, err error) {
	s, err := in.state(a.Store)
	if err != nil {
		return "", err
	}
	if s.Turn.Submitted != "" {
		return "", ErrSubmitted
	}
	e := state.Awaited{What: awaitsSubmit, Text: text, Patience: patience}
	if text != "" {
		e.Words, e.WordsSum = "interim."+store.NewID()+".txt", store.Sum([]byte(text))
		if err := a.Store.KeepAmong(path.Join(attemptDir(in.TurnID, in.Epoch), e.Words), strings.NewReader(text)); err != nil {
			return "", fmt.Errorf("keep what was submitted: %w", err)
		}
	}
	return a.awaiter().await(ctx, in, e)
}

// awaiter lets turns wait.
type awaiter struct{ journal *journal }

// await commits e for the turn, and returns the id of the wait.
func (aw *awaiter) await(ctx context.Context, in Inside, e state.Awaited) (id string, err error) {
	e.TurnID, e.Epoch = in.TurnID, in.Epoch
	var refused string
	s, err := aw.journal.commitWith(ctx, func(next state.State) error {
		for _, l := range next.Lines {
			switch {
			case l.Kind == state.LineEdge && l.What == state.EdgeAwait && l.TurnID == in.TurnID:
				id = l.Request
			case l.Kind == state.LineTurn && l.What == "refused":
				refused = l.Reason
			}
		}
		return nil
	}, e)
	if err != nil {
		return "", err
	}
	if err := in.check(s); err != nil {
		return "", err
	}
	if id == "" {
		return "", fmt.Errorf("the turn cannot wait for another report: %s", refused)
	}
	return id, nil
}

// interim returns what the attempt in dir had said by `submit --after suspend`, for the
// waits of its turn.
func interim(st *store.Store, dir string, waiting []state.Wait) string {
	var parts []string
	for _, w := range waiting {
		if w.Words == "" {
			continue
		}
		if text, err := st.ReadSummed(path.Join(dir, w.Words), w.WordsSum); err == nil {
			parts = append(parts, string(text))
		} else if !errors.Is(err, context.Canceled) {
			parts = append(parts, w.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// saidBefore returns what the agent of an earlier attempt in dir had said: what it
// printed, and what it submitted before it waited.
func saidBefore(st *store.Store, dir string, waiting []state.Wait) string {
	printed, words := turn.ReplayOutput(st.Path(dir)), interim(st, dir, waiting)
	if printed == "" || words == "" {
		return printed + words
	}
	return printed + "\n\n" + words
}
