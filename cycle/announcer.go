package cycle

import (
	"context"
	"fmt"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// announcer announces the outcomes of turns on the mesh, for those who watch agents on many
// machines (docs/events.md, "Through the mesh"). A failed announcement changes nothing, because
// the history is authoritative. Only the end of the process waits for announcements.
type announcer struct {
	core
	mesh *Mesh // nil: no mesh is configured
}

// announcePatience is the timeout of one announcement. A leader election among servers lasts a
// few seconds.
const announcePatience = 5 * time.Second

// announce announces the turns that end in lines, the history lines of one commit. head is the
// turn head before that commit.
func (a announcer) announce(head state.Head, lines []state.Line) {
	if a.mesh == nil {
		return
	}
	for _, l := range lines {
		if l.Kind != state.LineTask {
			continue
		}
		t := mesh.Task{
			Event: "task." + string(l.Outcome), ID: fmt.Sprintf("%d.%d", l.Serial, l.N), Agent: a.handle, At: l.At.UTC(),
			TurnID: l.TurnID, Epoch: l.Epoch, Status: l.Outcome,
		}
		if head.TurnID == l.TurnID {
			t.Began = head.Since.UTC()
		}
		a.mesh.announcing.Go(a.secrets.Guarded(func() { a.tell(t) }))
	}
}

func (a announcer) tell(t mesh.Task) {
	ctx, cancel := context.WithTimeout(context.Background(), announcePatience)
	defer cancel()
	if err := a.mesh.Carrier.Announce(ctx, t); err != nil {
		a.logf("what turn %s has come to was not announced: %v", t.TurnID, err)
	}
}
