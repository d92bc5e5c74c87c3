package mesh

import (
	"context"
	"time"

	"agentstateloop/state"
)

// Task is the result of a turn, for the observers of a mesh. Its first four members are those
// of the agent's own event (docs/events.md). It contains no part of a message, and no reason,
// because a reason may quote a message.
type Task struct {
	Event  string        `json:"event"` // task.success, …
	ID     string        `json:"id"`    // SERIAL.N of the line in the agent's history
	Agent  string        `json:"agent"` // its handle
	At     time.Time     `json:"at"`    // when the turn ended
	Host   string        `json:"host"`  // where the turn ran; the carrier sets it
	TurnID string        `json:"turn_id"`
	Epoch  uint64        `json:"turn_epoch"`
	Status state.Outcome `json:"status"`
	Began  time.Time     `json:"began,omitzero"` // the start of the last attempt
}

// Announce does nothing: a mesh over HTTP is on one machine.
func (c *Client) Announce(context.Context, Task) error { return nil }
