package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/memcarrier"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// wanted are the fields that every question asks for, the agent's and those of the others.
var wanted = mesh.ResultFields{{Name: "marker", Type: "string", Description: "the marker of the question", Required: true}, {Name: "number", Type: "integer"}}

// results are the fields that the agent submits for a message with this marker.
func results(marker string) []cycle.Field {
	return []cycle.Field{{Name: "marker", Text: marker}, {Name: "number", Value: json.RawMessage(fmt.Sprint(len(marker)))}}
}

// chainOf is the chain that another agent's question with this marker belongs to.
func chainOf(marker string) string { return "chain-of-" + marker }

// said holds the fields of a message to another agent, besides its text.
type said struct {
	Status state.Outcome  `json:"status"`
	Turn   string         `json:"turn_id"`
	Epoch  uint64         `json:"epoch"`
	Fields map[string]any `json:"fields"`
	Trace  string         `json:"trace_id"`
}

// checkContract checks the messages to other agents: each report has the status and the fields of
// its turn's deliverable, and everything that a message causes belongs to its chain, here and there
// (docs/protocol.md, "The contract between agents").
func (w *World) checkContract(h history) {
	chains := w.checkChains(h)
	for _, id := range sortedKeys(w.record.reports) {
		o := w.record.reports[id]
		turn := strings.TrimPrefix(o.id, replyKind)
		task, ended := h.ends[turn]
		if turn == o.id || !ended {
			continue // not the reply of a turn, or the message was lost
		}
		if o.said.Status != task.Outcome || o.said.Turn != turn || o.said.Epoch != task.Epoch {
			w.violate("contract", "%s says %+v, and its turn ended as %s in epoch %d", o.id, o.said, task.Outcome, task.Epoch)
		}
		if o.said.Trace != chains[task.Key] {
			w.violate("contract", "%s belongs to the chain %q, and its message to %q", o.id, o.said.Trace, chains[task.Key])
		}
		w.checkFields(o, task)
	}
}

// checkFields compares the fields of a report with those in the output box.
func (w *World) checkFields(o *outgoing, task line) {
	var kept map[string]any
	if task.Fields != "" {
		data, err := os.ReadFile(filepath.Join(w.stateDir(), task.OutputBox, task.Fields))
		if os.IsNotExist(err) {
			return // pruned
		}
		if err == nil {
			err = json.Unmarshal(data, &kept)
		}
		if err != nil {
			w.violate("contract", "the fields of turn %s: %v", task.TurnID, err)
		}
	}
	if len(kept)+len(o.said.Fields) > 0 && !reflect.DeepEqual(kept, o.said.Fields) {
		w.violate("contract", "%s has the fields %v, and its turn handed back %v", o.id, o.said.Fields, kept)
	}
	if len(kept) > 0 {
		w.count.happened("a report had fields")
	}
	asked := strings.HasPrefix(o.answers, "call-")
	if asked && task.Outcome == "success" && kept["marker"] == nil {
		w.violate("contract", "%s is a success without the field that was required", o.id)
	}
	if asked && task.Outcome == "partial" {
		w.count.happened("a report was partial")
	}
}

// checkChains checks that each message has one chain, with its turn, its edges and the effects of
// its turn. It returns the chains by message.
func (w *World) checkChains(h history) map[string]string {
	chains, turns := map[string]string{}, map[string]string{}
	for _, l := range h.lines {
		switch {
		case l.Kind == "message" && l.Message != nil:
			if old, known := chains[l.Key]; l.Message.Trace == "" || known && old != l.Message.Trace {
				w.violate("contract", "%s has the chain %q, and had %q", l, l.Message.Trace, old)
			}
			chains[l.Key] = l.Message.Trace
			if marker, ok := strings.CutPrefix(l.Key, "mesh:"+peers[1]+":id-"); ok && strings.HasPrefix(l.Message.Trace, "chain-of-") && l.Message.Trace != chainOf(marker) {
				w.violate("contract", "%s has the chain %q", l, l.Message.Trace)
			}
		case l.Kind == "turn" && l.What == state.WordDispatched:
			turns[l.TurnID] = l.Trace
			if l.Trace != chains[l.Key] {
				w.violate("contract", "%s has the chain %q, and its message %q", l, l.Trace, chains[l.Key])
			}
		case l.Kind == "edge" && l.Trace == "", l.Kind == "edge" && l.What == state.WordJoin && (l.Request == "" || l.Response == ""):
			w.violate("contract", "%s is an edge of no chain, or joins nothing", l)
		case (l.Kind == "edge" || l.Kind == "effect" && l.What == state.WordQueued && !l.isAboutHook()) && turns[l.TurnID] != "" && l.Trace != turns[l.TurnID]:
			w.violate("contract", "%s has the chain %q, and its turn %q", l, l.Trace, turns[l.TurnID])
		}
	}
	for _, id := range sortedKeys(w.record.reports) {
		if o := w.record.reports[id]; o.kind == "ask" && o.said.Trace == "" {
			w.violate("contract", "the question %s belongs to no chain", o.id)
		}
	}
	return chains
}

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
	if !w.clock.wasWrong() && !h.recovered {
		w.checkPace(h)
	}
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
		if end := h.ends[e.TurnID]; end.Epoch != e.Epoch || end.Outcome != e.Status || e.Event != "task."+string(end.Outcome) {
			w.violate("event", "no turn has come to what the event says: %+v", e)
		}
		w.count.happened("the end of a turn was an event on NATS")
	}
}

// posts returns when messages left through the mesh.
func (h history) posts() (sent []time.Time) {
	for _, l := range h.lines {
		if queued, known := h.queued[l.ID]; known && queued.Effect.Channel == "mesh" && l.is("delivery", state.WordSent) {
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

// checkPace checks that no more than five messages left within a minute, and that no more than five
// of a peer came in. The state knows when these came to the second.
func (w *World) checkPace(h history) {
	w.checkMinutes("messages left", h.posts(), time.Minute, "messages left as fast as they may")
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
		w.checkMinutes("messages of "+peer+" came in", taken, time.Minute-time.Second, "messages of a peer waited for its pace")
	}
}

// checkMinutes checks the times of messages: no more than pace are within least. It counts the event
// that they are almost that many.
func (w *World) checkMinutes(what string, times []time.Time, least time.Duration, event string) {
	for i := pace; i < len(times); i++ {
		first, last := times[i-pace], times[i]
		if last.Sub(first) < least {
			w.violate("pace", "%d %s within a minute, from %s to %s", pace+1, what, first, last)
		}
		if last.Sub(first) < 2*time.Minute {
			w.count.happened(event)
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
	known := false
	for _, l := range w.readHistory().lines {
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
