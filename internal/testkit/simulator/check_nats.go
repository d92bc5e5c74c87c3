package simulator

import (
	"context"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/memcarrier"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// These checks hold the promises of the mesh over NATS (docs/protocol.md, "The mesh over NATS").

// pace is how many messages may leave, and of a sender may be taken, within a minute.
const pace = 5

// checkNATS checks the history of an agent on the mesh over NATS.
func (w *World) checkNATS(h history) {
	if w.nats == nil {
		return
	}
	w.checkUnproven(h)
	w.checkEvents(h)
	w.checkHalts(h)
	w.checkPresence()
	if w.clock.wasWrong() || h.says("recovery", "", "") {
		return
	}
	w.checkPosts(h)
	w.checkTaken(h)
}

// checkUnproven checks that no message without a valid signature has woken the agent, was taken for
// an answer, or came in before a person released it.
func (w *World) checkUnproven(h history) {
	for _, l := range h.lines {
		if !strings.Contains(l.Key, ":unproven.") {
			continue
		}
		released := slices.ContainsFunc(w.record.meshMessages, func(p *meshMessage) bool {
			return strings.HasSuffix(l.Key, ":"+p.id) && p.touched()
		})
		if (l.Kind == "nudge" || l.Kind == "edge" || l.Kind == "message" || l.Kind == "turn") && !released {
			w.violate("4", "nothing proves who sent %s", l)
		}
	}
}

// announcedFor is how long the mesh knows an event again.
const announcedFor = time.Hour

// checkEvents checks the announced ends of turns: each once, and as the history has it. An event
// whose answer was lost is announced again, and if the clock of the servers was put forward
// meanwhile, the mesh has it twice.
func (w *World) checkEvents(h history) {
	seen := map[string]time.Time{}
	for _, e := range w.nats.Tasks() {
		if first, twice := seen[e.ID]; twice && e.Stored.Sub(first) < announcedFor {
			w.violate("event", "the event %+v is there twice", e)
		}
		seen[e.ID] = e.Stored
		is := func(l line) bool {
			return l.Kind == "task" && l.TurnID == e.TurnID && l.Epoch == e.Epoch && l.Outcome == e.Status && e.Event == "task."+string(l.Outcome)
		}
		if !h.any(is) {
			w.violate("event", "no turn has come to what the event says: %+v", e)
		}
		w.count.happened("the end of a turn was an event on NATS")
	}
}

// posts returns when messages left through the mesh.
func (h history) posts() (sent []time.Time) {
	byMesh := map[string]bool{}
	for _, l := range h.lines {
		if l.Kind == "effect" && l.Effect != nil && l.Effect.Channel == "mesh" {
			byMesh[l.ID] = true
		}
		if l.Kind == "delivery" && l.What == state.WordSent && byMesh[l.ID] {
			sent = append(sent, l.At)
		}
	}
	return sent
}

// paced reports whether the next message must wait for the pace over NATS.
func (w *World) paced(h history) bool {
	sent := h.posts()
	return w.nats != nil && len(sent) >= pace && w.clock.machine().Sub(sent[len(sent)-pace]) < time.Minute
}

// checkPosts checks that no more than five messages leave within a minute.
func (w *World) checkPosts(h history) {
	sent := h.posts()
	for i := pace; i < len(sent); i++ {
		if sent[i].Sub(sent[i-pace]) < time.Minute {
			w.violate("pace", "%d messages left within a minute, from %s to %s", pace+1, sent[i-pace], sent[i])
		}
		if sent[i].Sub(sent[i-pace]) < 2*time.Minute {
			w.count.happened("messages left as fast as they may")
		}
	}
}

// checkTaken checks that no more than five messages of a peer come in within a minute. The
// state knows when to the second.
func (w *World) checkTaken(h history) {
	for _, peer := range peers {
		var taken []time.Time
		seen := map[string]bool{}
		for _, l := range h.lines {
			if l.Source != "mesh" || l.Kind == "nudge" || l.Kind == "rejected" || !strings.HasPrefix(l.Key, "mesh:"+peer+":") || strings.Contains(l.Key, ":unproven.") || seen[l.Key] {
				continue
			}
			seen[l.Key] = true
			taken = append(taken, l.At)
		}
		for i := pace; i < len(taken); i++ {
			if taken[i].Sub(taken[i-pace]) < time.Minute-time.Second {
				w.violate("pace", "%d messages of %s came in within a minute, from %s to %s", pace+1, peer, taken[i-pace], taken[i])
			}
			if taken[i].Sub(taken[i-pace]) < 2*time.Minute {
				w.count.happened("messages of a peer waited for its pace")
			}
		}
	}
}

// checkPresence checks that the registry shows the agent at rest.
func (w *World) checkPresence() {
	seen, err := (&memcarrier.Carrier{Mesh: w.nats.Mesh, Handle: peers[0]}).Online(context.Background())
	if i := slices.IndexFunc(seen, func(p mesh.Presence) bool { return p.Handle == handle }); i < 0 || seen[i].Phase != state.IDLE {
		w.violate("presence", "at rest the registry has %+v (%v)", seen, err)
	}
}

// checkHalts checks that the agent saw HALT and GO in the order in which they were set, unless a
// server showed an older one.
func (w *World) checkHalts(h history) {
	if w.nats.lagged {
		return
	}
	next, switched := 0, w.halts()
	for _, l := range h.lines {
		if l.Kind != "halt" || l.From != "mesh" {
			continue
		}
		i := slices.Index(switched[next:], l.What == state.WordHalt)
		if i < 0 {
			w.violate("HALT", "the mesh over NATS was halted, and not, as %v; a poll has it as %s", switched, l)
			return
		}
		next += i + 1
	}
}

// checkMeshHalt checks, after an undisturbed poll that read the mesh, that the agent knows the HALT
// of the mesh over NATS. Before the poll it had been switched so many times.
func (w *World) checkMeshHalt(r cycle.Report, before int) {
	failed := slices.ContainsFunc(r.Failed, func(f cycle.SourceFailure) bool { return f.Source == state.Mesh })
	if w.nats == nil || failed || w.down("halt-stale") {
		return
	}
	switched := w.halts()
	if len(switched) == 0 || len(switched) != before { // never, or during the poll by somebody in a turn of it
		return
	}
	halted := switched[len(switched)-1]
	h, err := w.readHistory()
	if err != nil {
		return
	}
	known := false
	for _, l := range h.lines {
		if l.Kind == "halt" && l.From == "mesh" {
			known = l.What == state.WordHalt
		}
	}
	if halted {
		w.count.happened("the mesh over NATS was halted")
	}
	if known != halted {
		w.violate("HALT", "the mesh over NATS is halted: %v, and a poll has it as %v", halted, known)
	}
}
