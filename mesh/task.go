package mesh

import (
	"context"
	"time"

	"agentstateloop/state"
)

// Task says what a turn has come to, for those who watch a mesh. Its first four members
// are those of the event that the agent itself has for it (docs/events.md). It holds
// nothing of a message, and no reason, which may quote one.
type Task struct {
	Event  string        `json:"event"` // task.success, …
	ID     string        `json:"id"`    // SERIAL.N of the line in the agent's history
	Agent  string        `json:"agent"` // its handle
	At     time.Time     `json:"at"`    // when the turn ended
	Host   string        `json:"host"`  // where; the carrier says it
	TurnID string        `json:"turn_id"`
	Epoch  uint64        `json:"turn_epoch"`
	Status state.Outcome `json:"status"`
	Began  time.Time     `json:"began,omitzero"` // its last attempt
}

// Announce does nothing: a mesh over HTTP is on one machine.
func (c *Client) Announce(context.Context, Task) error { return nil }
