package natsmesh

import (
	"context"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/mesh"
)

// Watch waits for a ring or a change of HALT, for wait at most. It takes no message out of our
// mailbox. It shows each ring as a nudge. A nudge from ourselves means that messages are
// already waiting.
func (c *Client) Watch(ctx context.Context, wait time.Duration) (mesh.Mailbox, error) {
	const op = "watch mailbox"
	heard, err := c.engine().Listen(ctx, wait)
	if err != nil {
		return mesh.Mailbox{}, failure(op, err)
	}
	keys, err := c.keyring(ctx)
	if err != nil {
		return mesh.Mailbox{}, failure(op, err)
	}
	var box mesh.Mailbox
	box.Halted, box.HaltUnproven = keys.halted(heard.Halt)
	if heard.Waiting > 0 {
		box.Messages = append(box.Messages, c.nudge(c.Handle, true))
	}
	judged := map[fleet.Ring]bool{}
	for _, r := range heard.Rings {
		proven, known := judged[r]
		if !known {
			proven = r.SignedBy(keys.of(r.From))
			judged[r] = proven
		}
		box.Messages = append(box.Messages, c.nudge(r.From, proven))
	}
	return box, nil
}

func (c *Client) nudge(from string, proven bool) mesh.Message {
	return mesh.Message{ID: fleet.NudgeID(), From: from, To: c.Handle, Kind: mesh.KindNudge, Proven: proven, SentAt: c.now().UTC()}
}
