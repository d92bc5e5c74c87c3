package simulator

import (
	"slices"
	"strings"
	"time"
)

// rings follows who wakes the agent through the mesh, for the mails that this may
// cause: for each sender one ack an hour, unless a message followed, and no quiet
// (docs/design.md, "Phases").
type rings struct {
	by     string               // who woke the agent, while no message has followed
	mailed map[string]time.Time // by sender
	silent bool                 // silence has ended a phase that such a nudge began
}

func (r *rings) nudge(v *historyChecker, l line) {
	if l.Source != "mesh" {
		r.by = ""
		return
	}
	if l.From != handle && !slices.Contains(peers, l.From) {
		v.broken("4", "a nudge of %s was accepted", l.From)
	}
	if v.phase == "IDLE" {
		r.by = l.From
	}
}

func (r *rings) followed() {
	delete(r.mailed, r.by)
	r.by = ""
}

func (r *rings) moved(l line) {
	r.silent = l.New == "IDLE" && r.by != "" && !strings.HasPrefix(l.Reason, "by hand")
	if l.New != "PREP" {
		r.by = ""
	}
}

// acked checks an ack. A clock that was set back makes an hour of any length.
func (r *rings) acked(v *historyChecker, l line) {
	if r.by == "" {
		return
	}
	v.happened("a nudge of another agent was acknowledged")
	before, known := r.mailed[r.by]
	if known && l.At.Sub(before) < time.Hour && !v.world.clock.wasSetBack() {
		v.broken("3", "%s woke the agent at %s and %s without a message, and both were mailed", r.by, before, l.At)
	}
	if r.mailed == nil {
		r.mailed = map[string]time.Time{}
	}
	r.mailed[r.by] = l.At
}
