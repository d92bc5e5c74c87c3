package simulator

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"agentstateloop/cycle"
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
