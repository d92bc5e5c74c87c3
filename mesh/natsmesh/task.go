package natsmesh

import (
	"context"
	"encoding/json"

	"agentstateloop/mesh"
)

// Announce publishes the result of a turn, signed like a row of the registry, and waits until
// the server has it on disk.
func (c *Client) Announce(ctx context.Context, t mesh.Task) error {
	const op = "announce task"
	t.Host = c.Host
	body, err := json.Marshal(t)
	if err != nil {
		return &mesh.Error{Op: op, Err: err}
	}
	return failure(op, c.engine().Announce(ctx, t.At, body))
}
