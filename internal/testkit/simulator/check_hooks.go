package simulator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"agentstateloop/state"
)

// These checks hold the promises about hooks (docs/design.md, "Hooks").

// event returns the name of the event that a line announces, as docs/events.md has it, or "" for
// lines that the checker ignores.
func (l line) event() string {
	switch l.Kind {
	case "task":
		return "task." + string(l.Outcome)
	case "transition":
		return "phase." + string(l.New)
	case "halt":
		return string(l.What)
	case "message", "nudge", "control", "reset":
		return string(l.Kind)
	case "gate":
		return "quarantine"
	case "turn":
		return map[string]string{"submitted": "turn.submitted", "suspended": "turn.suspended", "reaped": "turn.reaped", "given back": "turn.given_back"}[string(l.What)]
	case "credential":
		return map[string]string{"blocker": "blocker", "blocker over": "blocker.over", "failed": "credential.failed", "recovered": "credential.recovered"}[string(l.What)]
	case "delivery":
		if !l.isAboutHook() {
			return map[string]string{"sent": "sent", "undeliverable": "undelivered"}[string(l.What)]
		}
	case "effect":
		if l.What == state.WordQueued && l.Effect != nil && (l.Effect.Kind == "ack" || l.Effect.Kind == "quiet") {
			return string(l.Effect.Kind)
		}
		if l.What == state.WordQueued && l.Effect != nil && l.Effect.Kind == "question" {
			return "question.asked"
		}
	}
	return ""
}

// isAboutHook reports whether a line is about a row for a hook.
func (l line) isAboutHook() bool { return strings.HasPrefix(l.ID, "hook.") }

// hears reports whether a hook hears an event.
func (l *listener) hears(event string) bool {
	return slices.ContainsFunc(l.on, func(on string) bool { return on == "*" || on == event || strings.HasPrefix(event, on+".") })
}

// wasConfigured reports whether the hook was configured for a commit for sure.
func (l *listener) wasConfigured(serial uint64) bool {
	return slices.ContainsFunc(l.spans, func(s serials) bool { return s.after < serial && serial <= s.until })
}

// hookRow is a row for a hook, in the history.
type hookRow struct {
	id    string
	event state.Announcement
	ended line // the zero line: it waits
}

// checkHooks checks that each hook has heard each of its events, under one id with the same bytes
// and in order, or that the history records the loss; that no line about a hook makes an event; and
// that no row waits for a hook at the end.
func (w *World) checkHooks(h history) {
	lines := map[string]line{}
	for _, l := range h.lines {
		lines[fmt.Sprintf("%d.%d", l.Serial, l.N)] = l
	}
	for _, l := range w.hooks {
		rows := w.hookRows(h, lines, l)
		if w.isComplete(h, l, rows) {
			w.checkCalls(l, rows)
		}
	}
}

// hookRows returns the rows for a hook, in order.
func (w *World) hookRows(h history, lines map[string]line, l *listener) (rows []hookRow) {
	ended := map[string]line{}
	for _, e := range h.lines {
		if e.Kind == "delivery" && e.isAboutHook() {
			if old, twice := ended[e.ID]; twice {
				w.violate("hooks", "%s ended twice: %s, %s", e.ID, old, e)
			}
			ended[e.ID] = e
		}
	}
	for _, e := range h.lines {
		if e.Kind != "effect" || e.Effect == nil || e.Effect.Kind != "hook" || e.Effect.To != l.name || e.What != state.WordQueued {
			continue
		}
		of, known := lines[e.Effect.Announces.ID]
		switch a := e.Effect.Announces; {
		case !known || of.Serial != e.Serial:
			w.violate("hooks", "%s for %s announces %s, which is not a line of its commit", e.ID, l.name, a.ID)
		case of.isAboutHook():
			w.violate("hooks", "%s for %s announces %s, which is about a hook: %s", e.ID, l.name, a.ID, of)
		case of.event() != "" && of.event() != a.Event || !l.hears(a.Event) || len(l.spans) == 0:
			w.violate("hooks", "%s for %s announces %s as %q, and is not to", e.ID, l.name, of, a.Event)
		}
		rows = append(rows, hookRow{e.ID, *e.Effect.Announces, ended[e.ID]})
	}
	return rows
}

// isComplete checks that there is one row for each line that the hook hears of.
func (w *World) isComplete(h history, l *listener, rows []hookRow) bool {
	count := map[string]int{}
	for _, r := range rows {
		count[r.event.ID]++
	}
	for _, of := range h.lines {
		id, event := fmt.Sprintf("%d.%d", of.Serial, of.N), of.event()
		if event == "" || !l.hears(event) || !l.wasConfigured(of.Serial) {
			continue
		}
		if count[id] != 1 {
			w.violate("hooks", "%d rows for %s announce %s (%s)", count[id], l.name, of, event)
			return false
		}
		w.count.happened("a hook was to hear of something")
	}
	return true
}

// checkCalls compares the calls of a hook with the rows for it.
func (w *World) checkCalls(l *listener, rows []hookRow) {
	place, took := map[string]int{}, map[string]bool{}
	for i, r := range rows {
		place[r.id] = i
	}
	bodies := map[string]string{}
	for _, c := range l.calls {
		i, known := place[c.id]
		if !known {
			w.violate("hooks", "%s was called for %s, and no row has that id", l.name, c.id)
			return
		}
		if body, again := bodies[c.id]; again && body != c.body {
			w.violate("hooks", "%s was handed two bodies for %s:\n%s\n%s", l.name, c.id, body, c.body)
		}
		bodies[c.id], took[c.id] = c.body, took[c.id] || c.took
		w.checkBody(l, rows[i].event, c.body)
		if at := rows[i].ended.Serial; at != 0 && at <= c.serial {
			w.violate("hooks", "%s was called for %s after commit %d, and that had ended: %s", l.name, c.id, c.serial, rows[i].ended)
		}
		for _, earlier := range rows[:i] {
			if at := earlier.ended.Serial; at == 0 || at > c.serial {
				w.violate("hooks", "%s was called for %s after commit %d, before %s had ended", l.name, c.id, c.serial, earlier.id)
			}
		}
	}
	for _, r := range rows {
		switch what := r.ended.What; {
		case what == "":
			w.violate("hooks", "%s for %s waits at the end: %+v", r.id, l.name, r.event)
		case what == state.WordSent && !took[r.id]:
			w.violate("hooks", "%s ended as %q, and %s has not taken it", r.id, what, l.name)
		case what == state.WordSent:
			w.count.happened("a hook took an event")
		case r.ended.Reason == "":
			w.violate("hooks", "%s for %s ended as %q, without a reason", r.id, l.name, what)
		default:
			w.count.happened("an event for a hook was lost: " + string(what))
		}
	}
}

// checkBody checks that a hook gets the event of its row, and no text of a sender.
func (w *World) checkBody(l *listener, want state.Announcement, body string) {
	var got state.Announcement
	if err := json.Unmarshal([]byte(body), &got); err != nil || !reflect.DeepEqual(got, want) || got.Agent != handle {
		w.violate("hooks", "%s was handed %s, and the event is %+v: %v", l.name, body, want, err)
	}
	if strings.Contains(body, " do=") {
		w.violate("hooks", "%s was handed what somebody wrote: %s", l.name, body)
	}
}
