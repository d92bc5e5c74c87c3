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

// A turn can wait for work that its agent starts outside of it (docs/design.md, "Suspension").
// The agent calls these functions from inside the turn.

// awaitsSubmit is the What of a wait that the agent itself has begun.
const awaitsSubmit = "submit"

// Awaiting describes work that reports later under the id of the wait.
type Awaiting struct {
	What     string // "tool deploy", or "submit"
	Text     string // the turn's description of the work
	Peers    []string
	Patience time.Duration
}

// AwaitReport commits that the turn waits for a report, and returns the id that the report must
// repeat. The turn may end now; the same turn goes on when every report has come or is late.
func (a *Agent) AwaitReport(ctx context.Context, in Inside, w Awaiting) (id string, err error) {
	return a.awaiter().await(ctx, in, state.Awaited{What: w.What, Text: w.Text, Peers: w.Peers, Patience: w.Patience})
}

// WithdrawReport cancels a wait that AwaitReport has committed.
func (a *Agent) WithdrawReport(ctx context.Context, in Inside, id, reason string) error {
	s, err := a.journal().commit(ctx, state.Withdrawn{TurnID: in.TurnID, Epoch: in.Epoch, ID: id, Reason: reason})
	if err != nil {
		return err
	}
	return in.check(s)
}

// Finish records that the turn ends with this attempt, even if it still waits.
func (a *Agent) Finish(ctx context.Context, in Inside) error {
	s, err := a.journal().commit(ctx, state.Finished{TurnID: in.TurnID, Epoch: in.Epoch})
	if err != nil {
		return err
	}
	return in.check(s)
}

// Suspend lets the turn wait for a report, as `submit --after suspend` does. The text is kept
// as an interim text of the turn.
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

// awaiter commits the waits of turns.
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

// interim returns the texts that the attempt in dir submitted with `submit --after suspend`,
// for the waits of its turn.
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

// saidBefore returns the earlier words of the agent from the attempt in dir: its printed text,
// and the texts that it submitted before it waited.
func saidBefore(st *store.Store, dir string, waiting []state.Wait) string {
	printed, words := turn.ReplayOutput(st.Path(dir)), interim(st, dir, waiting)
	if printed == "" || words == "" {
		return printed + words
	}
	return printed + "\n\n" + words
}
