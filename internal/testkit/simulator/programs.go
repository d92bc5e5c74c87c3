package simulator

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Messages of programs on the machine of the agent (docs/protocol.md, "Words of programs").

// webhook is the name of programs that speak through `listen`.
const webhook = "webhook"

// byProgram begins the name of a program as a speaker; see speaker.
const byProgram = "the program "

// eventRate is how many messages of programs may run within an hour.
const eventRate = 5

// program is a message of a program. The key of a file begins with mark. A message through `listen`
// has a key, or "" if the process died.
type program struct{ marker, name, key, mark string }

// says plays a program that says something: through a file, through `listen`, or, as
// `tell --mail`, the operator.
func (w *World) says(s Step) error {
	if s.Kind == "mail" {
		return w.tell(s, true)
	}
	w.record.mu.Lock()
	e := &program{marker: fmt.Sprintf("E%03d", len(w.record.programs)), name: webhook}
	if s.Kind == "file" {
		e.name = "check-" + strings.ToLower(e.marker)
		e.mark = "nudge:" + url.PathEscape(e.name+store.MessageSuffix) + "@"
	}
	w.record.programs = append(w.record.programs, e)
	w.record.mu.Unlock()
	w.wishInside(s)
	text := e.marker + " do=" + s.Wish
	if s.Kind == "file" {
		return w.dropFile(e.name+store.MessageSuffix, text)
	}
	return w.say(s, &e.key, func(ctx context.Context, a *cycle.Agent) (string, error) {
		return a.TellEvent(ctx, cycle.EventMessage{From: webhook, Text: text})
	})
}

// has reports whether a key is that of the program's message.
func (e *program) has(key string) bool {
	return key != "" && (key == e.key || e.mark != "" && strings.HasPrefix(key, e.mark))
}

// checkPrograms checks that each message of a program had one turn, whose answer was mailed to the
// operator once, and that programs caused no more turns within an hour than allowed.
func (w *World) checkPrograms(h history) {
	hurt := w.lostByDamage(h)
	for _, e := range w.record.programs {
		w.checkProgram(h, hurt, e)
	}
	w.checkProgramRate(h)
}

func (w *World) checkProgram(h history, hurt map[string]bool, e *program) {
	var tasks []line
	accepted, lost := 0, false
	for _, l := range h.lines {
		switch {
		case !e.has(l.Key):
		case l.Kind == "message" && l.What == "":
			accepted++
			lost = lost || hurt[l.Key]
			if l.Source != "event" || l.From != e.name || l.Message == nil || l.Message.Operator {
				w.violate("programs", "%s of the program %s came in as %s of %s: %+v", e.marker, e.name, l, l.From, l.Message)
			}
		case l.Kind == "task":
			tasks = append(tasks, l)
		}
	}
	switch {
	case e.key == "" && e.mark == "":
		return // its process died before it confirmed the message
	case accepted != 1:
		w.violate("programs", "%s of the program %s was accepted %d times", e.marker, e.name, accepted)
	case len(tasks) != 1 && !(lost && len(tasks) == 0):
		w.violate("programs", "%s of the program %s has %d ended turns", e.marker, e.name, len(tasks))
	case len(tasks) == 1:
		w.checkMailed(h, e.marker, tasks[0])
	}
}

// checkMailed checks that the answer of a turn was mailed once.
func (w *World) checkMailed(h history, marker string, task line) {
	n := len(w.record.mailed(replyKind + task.TurnID))
	if n != 1 && !(n == 0 && h.undeliverable(replyKind+task.TurnID)) {
		w.violate("programs", "the answer to %s, of %s, was mailed %d times", marker, task, n)
	}
	w.count.happened("the answer to a program was mailed")
}

// checkProgramRate checks by a count of its own how many messages of programs have run
// within an hour.
func (w *World) checkProgramRate(h history) {
	if w.clock.wasSetBack() {
		return
	}
	waited, began := map[string]bool{}, map[string]bool{}
	var ran []time.Time // when each was let run
	for _, l := range h.lines {
		switch {
		case l.Kind == "message" && l.Source == "event" && l.What == "" && l.Message != nil && !l.Message.Operator:
			if waited[l.Key] = l.Message.Status == "deferred"; !waited[l.Key] {
				ran = append(ran, l.At)
			}
		case l.Kind == "turn" && l.What == state.WordDispatched && waited[l.Key] && !began[l.Key]:
			began[l.Key] = true
			w.count.happened("a message of a program was above the limit of the hour")
			if n := len(ran); n >= eventRate && l.At.Before(ran[n-eventRate].Add(time.Hour)) {
				w.violate("rate", "%s began at %s, and %d messages of programs since %s", l.Key, l.At, eventRate, ran[n-eventRate])
			}
			ran = append(ran, l.At)
		}
	}
}
