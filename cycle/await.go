package cycle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
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
	s, err := in.state(a.core())
	if err != nil {
		return "", err
	}
	if s.Turn.Submitted != "" {
		return "", ErrSubmitted
	}
	e := state.Awaited{What: awaitsSubmit, Text: text, Patience: patience}
	if text != "" {
		e.Words, e.WordsSum = "interim."+store.NewID()+".txt", store.Sum([]byte(text))
		if err := a.Store.KeepAmong(path.Join(store.AttemptDir(in.TurnID, in.Epoch), e.Words), strings.NewReader(text)); err != nil {
			return "", fmt.Errorf("save submission: %w", err)
		}
	}
	return a.awaiter().await(ctx, in, e)
}

// awaiter commits the waits of turns.
type awaiter struct{ journal *journal }

func (a *Agent) awaiter() *awaiter { return &awaiter{journal: a.journal()} }

// await commits e for the turn, and returns the id of the wait.
func (aw *awaiter) await(ctx context.Context, in Inside, e state.Awaited) (id string, err error) {
	e.TurnID, e.Epoch = in.TurnID, in.Epoch
	var refused string
	s, err := aw.journal.commitWith(ctx, func(next state.State) error {
		for _, l := range next.Lines {
			switch {
			case l.Kind == state.LineEdge && l.What == state.WordAwait && l.TurnID == in.TurnID:
				id = l.Request
			case l.Kind == state.LineTurn && l.What == state.WordRefused:
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

// interimText returns the texts that the attempt in dir submitted with `submit --after suspend`,
// for the waits of its turn.
func interimText(st *store.Store, dir string, waiting []state.Wait) string {
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

// earlierOutput returns the earlier words of the agent from the attempt in dir: its printed text,
// and the texts that it submitted before it waited.
func earlierOutput(st *store.Store, dir string, waiting []state.Wait) string {
	printed, words := turn.ReplayOutput(st.Path(dir)), interimText(st, dir, waiting)
	if printed == "" || words == "" {
		return printed + words
	}
	return printed + "\n\n" + words
}

// LocalReport is the report of a program or a person on work that a turn has started.
type LocalReport struct {
	From   string // the reporter, for the history
	Status state.Outcome
	Text   string
	Fields mesh.Fields
}

// Check returns an error that describes a fault of the report, or nil. The text may have any
// length: it is truncated to the limit of a mesh message, because a script cannot know how much
// the programs that it calls print.
func (r LocalReport) Check() error {
	if r.Status != "" && !r.Status.Valid() {
		return fmt.Errorf("%q is not a status: expected success, failed, partial, canceled or timeout", string(r.Status))
	}
	return r.Fields.Check()
}

// The reasons why a report is rejected.
var (
	ErrUnknownReport = errors.New("no turn waits for a report with this id")
	ErrLateReport    = errors.New("the report is late")
	ErrNotTheirs     = errors.New("this id belongs to a question to another agent, and only that agent can answer it")
)

// TakeReport takes a report on work that a turn waits for. Only its id proves it. It is durable
// when TakeReport returns. taken is false, without a change, if the id was reported on before.
// The errors are ErrUnknownReport, ErrLateReport, ErrNotTheirs, and those of the disk.
func (a *Agent) TakeReport(ctx context.Context, id string, r LocalReport) (taken bool, err error) {
	return a.reportTaker().take(ctx, id, r)
}

// reportTaker takes reports.
type reportTaker struct {
	committer
}

func (a *Agent) reportTaker() *reportTaker { return &reportTaker{committer: a.committer()} }

// take is TakeReport.
func (t *reportTaker) take(ctx context.Context, id string, r LocalReport) (bool, error) {
	if err := cmp.Or(r.Check(), t.acts()); err != nil {
		return false, err
	}
	s, err := t.store.Read()
	if err != nil {
		return false, err
	}
	w, known := s.Awaited(id)
	switch {
	case known && !w.Outside:
		return false, ErrNotTheirs
	case !known || w.Answered() || !t.now().Before(w.By):
		return false, t.lateError(id)
	}
	r.From, r.Text = plain.Brief(r.From), truncateJSON(r.Text, maxPosted-r.Fields.Size())
	key := "reported:" + id
	payload := store.PayloadName(store.MessagesDir, key+"."+store.NewID(), ".json") // two may report at once
	raw, err := json.Marshal(mesh.Message{
		ID: key, From: r.From, To: t.handle, Text: r.Text, Kind: mesh.KindReport, Correlation: id,
		Status: r.Status, Fields: r.Fields, SentAt: t.now().UTC(),
	})
	if err != nil {
		return false, err
	}
	sum, err := t.store.KeepSummed(payload, bytes.NewReader(raw))
	if err != nil {
		return false, fmt.Errorf("save report: %w", err)
	}
	taken := false
	_, err = t.journal.commitWith(ctx, func(next state.State) error {
		for _, l := range next.Lines {
			taken = taken || l.Kind == state.LineEdge && l.What == state.WordReport && l.Request == id && l.Key == key
		}
		return nil
	}, state.Reported{Key: key, From: r.From, Payload: payload, Sum: sum, ToolCallID: id, Status: r.Status, Local: true})
	if err != nil {
		return false, err
	}
	if taken {
		return true, nil
	}
	_ = t.store.Remove(payload) // another report came first, or the deadline
	return false, t.lateError(id)
}

// overSearched limits how many bytes of the history are searched for the end of a wait.
const overSearched = 64 << 20

// lateError returns the error for a report that is not awaited, or nil if the id was reported on
// before.
func (t *reportTaker) lateError(id string) error {
	reported := false
	for l, err := range t.store.Newest(overSearched, state.LineEdge) {
		if err != nil {
			return err
		}
		if l.Request != id {
			continue
		}
		switch {
		case l.What == state.WordReport && l.Key != "":
			reported = true
		case l.What == state.WordAwait && reported:
			return nil
		case l.What == state.WordAwait:
			return fmt.Errorf("%w: %s stopped waiting for it at the deadline, or when its turn ended", ErrLateReport, l.From)
		}
	}
	return ErrUnknownReport // we never waited for it, whatever else has this id
}
