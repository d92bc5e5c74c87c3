package cycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

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
		return fmt.Errorf("%q is not a status: success, failed, partial, canceled or timeout", string(r.Status))
	}
	return r.Fields.Check()
}

// The reasons why a report is rejected.
var (
	ErrUnknownReport = errors.New("nothing waits for a report by this id")
	ErrLateReport    = errors.New("the report is late")
	ErrNotTheirs     = errors.New("this id is that of a question to another agent, which alone can answer it")
)

// TakeReport takes a report on work that a turn waits for. Only its id proves it. It is durable
// when TakeReport returns. taken is false, without a change, if the id was reported on before.
// The errors are ErrUnknownReport, ErrLateReport, ErrNotTheirs, and those of the disk.
func (a *Agent) TakeReport(ctx context.Context, id string, r LocalReport) (taken bool, err error) {
	return a.reportTaker().take(ctx, id, r)
}

// reportTaker takes reports.
type reportTaker struct {
	core
	journal *journal
}

// take is TakeReport.
func (t *reportTaker) take(ctx context.Context, id string, r LocalReport) (bool, error) {
	if err := r.Check(); err != nil {
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
		return false, t.over(id)
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
		return false, fmt.Errorf("keep report: %w", err)
	}
	taken := false
	_, err = t.journal.commitWith(ctx, func(next state.State) error {
		for _, l := range next.Lines {
			taken = taken || l.Kind == state.LineEdge && l.What == state.EdgeReport && l.Request == id && l.Key == key
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
	return false, t.over(id)
}

// overSearched limits how many bytes of the history are searched for the end of a wait.
const overSearched = 64 << 20

// over returns the error for a report that is not awaited, or nil if the id was reported on
// before.
func (t *reportTaker) over(id string) error {
	reported := false
	for l, err := range t.store.Newest(overSearched, state.LineEdge) {
		if err != nil {
			return err
		}
		if l.Request != id {
			continue
		}
		switch {
		case l.What == state.EdgeReport && l.Key != "":
			reported = true
		case l.What == state.EdgeAwait && reported:
			return nil
		case l.What == state.EdgeAwait:
			return fmt.Errorf("%w: %s has not waited for it since the deadline, or since its turn ended", ErrLateReport, l.From)
		}
	}
	return ErrUnknownReport // we never waited for it, whatever else has this id
}
