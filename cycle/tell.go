package cycle

import (
	"context"
	"fmt"
	"os"
	"path"
	"time"

	"agentstateloop/state"
)

// Deliverable is what a turn handed back.
type Deliverable struct {
	TurnID  string        `json:"turn_id"`
	Outcome state.Outcome `json:"status"`
	Reason  string        `json:"reason"`
	Text    string        `json:"text"`
}

// Await waits until the turn of the message with this key has ended, and
// returns its deliverable. It ends with ctx, and when there is no money for the
// turn.
func (a *Agent) Await(ctx context.Context, key string) (Deliverable, error) {
	tick := time.NewTicker(lookEvery / 5)
	defer tick.Stop()
	for {
		s, err := a.Store.Read()
		if err != nil {
			return Deliverable{}, err
		}
		msg, waiting := s.Message(key)
		if !waiting {
			return a.deliverableOf(key)
		}
		if why := a.Broke(s); why != "" && msg.Status == state.Queued {
			return Deliverable{}, fmt.Errorf("the agent is out of money: %s", why)
		}
		select {
		case <-ctx.Done():
			return Deliverable{}, fmt.Errorf("the message is in the inbox and will be answered; see `history`: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// deliverableOf finds the deliverable of a message that has left the inbox.
func (a *Agent) deliverableOf(key string) (Deliverable, error) {
	var last state.Line
	for l, err := range a.Store.History(state.LineTask, state.LineEnded) {
		if err != nil {
			return Deliverable{}, err
		}
		if l.Key == key {
			last = l
		}
	}
	if last.Kind != state.LineTask {
		return Deliverable{}, fmt.Errorf("the message left the inbox without a turn: %s", last.What)
	}
	text, err := os.ReadFile(a.Store.Path(path.Join(last.OutputBox, last.Deliverable)))
	if err != nil {
		return Deliverable{}, fmt.Errorf("read deliverable: %w", err)
	}
	return Deliverable{TurnID: last.TurnID, Outcome: last.Outcome, Reason: last.Reason, Text: string(text)}, nil
}
