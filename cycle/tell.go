package cycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Tell puts an operator's message from the terminal into the inbox. It returns
// the message's key, for Await. The message is durable when Tell returns.
func (a *Agent) Tell(ctx context.Context, from, text string) (key string, err error) {
	if strings.TrimSpace(text) == "" {
		return "", errors.New("the message is empty")
	}
	if err := a.Here(); err != nil {
		return "", err
	}
	key = "cli:" + store.NewID()
	arrived, err := toldArrived(a.Store, key, from, text)
	if err != nil {
		return "", err
	}
	arrived.Message.At = a.Now()
	_, err = a.journal().commit(ctx, arrived)
	return key, err
}

// toldArrived keeps the text of an operator's message from the terminal and returns its event,
// without the time.
func toldArrived(files payloads, key, from, text string) (state.Arrived, error) {
	payload := store.PayloadName(store.MessagesDir, key, ".txt")
	sum, err := files.KeepSummed(payload, strings.NewReader(text))
	if err != nil {
		return state.Arrived{}, fmt.Errorf("save message: %w", err)
	}
	return state.Arrived{Message: state.Message{
		Key: key, Source: state.CLI, From: from, Operator: true, Payload: payload, Sum: sum, Size: len(text),
	}}, nil
}

// Deliverable is the text that a turn handed back, and the outcome of the turn.
type Deliverable struct {
	TurnID  string        `json:"turn_id"`
	Outcome state.Outcome `json:"status"`
	Reason  string        `json:"reason"`
	Text    string        `json:"text"`
	Fields  mesh.Fields   `json:"fields"`
	Trace   string        `json:"trace_id"`
}

// Whole returns the deliverable as one text for people: one field per line, then the text.
func (d Deliverable) Whole() string { return withFields(d.Fields, d.Text) }

// Await waits until the turn of the message with this key has ended, and returns its
// deliverable. It returns an error when ctx ends, and when the agent cannot afford the turn.
// While it waits, it passes the reason to each of watch, ten times a second, and ends with the
// first error that one of them returns.
func (a *Agent) Await(ctx context.Context, key string, watch ...func(view.Waiting) error) (Deliverable, error) {
	tick := time.NewTicker(checkInterval(a) / 5)
	defer tick.Stop()
	for {
		s, err := a.Store.Read()
		if err != nil {
			return Deliverable{}, err
		}
		msg, waiting := s.Message(key)
		arrived := waiting || a.Seat == nil || knownKey(s, key) // a forwarded one is on its way at first
		if arrived && !waiting {
			return deliverableOf(a.Store, key)
		}
		if why := a.OutOfMoney(s); why != "" && (msg.Status == state.Queued || msg.Status == state.Deferred) {
			return Deliverable{}, fmt.Errorf("the agent is out of money: %s", why)
		}
		for _, tell := range watch {
			if !arrived {
				break
			}
			if err := tell(a.View().WhyWaits(s, key)); err != nil {
				return Deliverable{}, err
			}
		}
		select {
		case <-ctx.Done():
			return Deliverable{}, fmt.Errorf("the message is in the inbox and will be answered; see `history`: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// DeliverableOf returns the deliverable of a message whose turn has ended. It returns nil if its
// turn has not ended, or if the deliverable is not kept any more.
func (a *Agent) DeliverableOf(key string) (*Deliverable, error) {
	task, err := lastTask(a.Store, key)
	if err != nil || task.Kind != state.LineTask {
		return nil, err
	}
	d, err := readDeliverable(a.Store, task)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &d, err
}

// deliverableOf returns the deliverable of a message that has left the inbox.
func deliverableOf(st *store.Store, key string) (Deliverable, error) {
	last, err := lastTask(st, key)
	if err != nil {
		return Deliverable{}, err
	}
	if last.Kind != state.LineTask {
		return Deliverable{}, fmt.Errorf("the message left the inbox without a turn: %s", last.What)
	}
	return readDeliverable(st, last)
}

// lastTask returns the line with which a message left the inbox, or the zero line.
func lastTask(st *store.Store, key string) (last state.Line, err error) {
	for l, err := range st.History(state.LineTask, state.LineEnded) {
		if err != nil {
			return last, err
		}
		if l.Ends(key) {
			last = l
		}
	}
	return last, nil
}

// readDeliverable returns the deliverable of a task line's turn.
func readDeliverable(st *store.Store, task state.Line) (Deliverable, error) {
	back, err := readDeliverableBody(st, task.OutputBox, task.Deliverable, task.Fields)
	return Deliverable{
		TurnID: task.TurnID, Outcome: task.Outcome, Reason: task.Reason, Text: back.Text, Fields: back.Fields, Trace: task.Trace,
	}, err
}
