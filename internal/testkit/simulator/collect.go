package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/state"
)

// Messages that one sender writes in a row, and that one turn answers (docs/design.md, "Turns").

// collecting begins the reason of a message that waits while its sender still writes.
const collecting = "waits for what its sender still writes"

// collectFor sets [turn] collect.
func (w *World) collectFor(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current.collect, w.current.longest = d, max(d, w.current.longest)
}

// burst lets one sender write several messages, a few seconds apart.
func (w *World) burst(s Step) error {
	for i := range 2 + s.N%3 {
		kind := s.Kind
		if kind == "mixed" {
			kind = []string{"mail", "message", "tell"}[(s.N+i)%3]
		}
		step := Step{Do: Mail, Kind: "new", Wish: s.Wish, N: s.N + i}
		switch kind {
		case "message":
			step.Do, step.Kind = Message, []string{"message", "message", "form", "ask"}[(s.N/3+i)%4]
		case "tell":
			step.Do, step.Kind = Tell, ""
		}
		if err := w.do(step); err != nil {
			return err
		}
		w.clock.pass(5 * time.Second)
	}
	return nil
}

// newestMessage returns the message of a prompt that its turn is about: the last.
func newestMessage(prompt string) string {
	all := messagesOf(prompt)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// messagesOf returns the messages of a prompt.
func messagesOf(prompt string) (all []string) {
	for {
		_, rest, found := strings.Cut(prompt, "\n<message ")
		boundary, text, whole := strings.Cut(rest, ">\n")
		if !found || !whole {
			return all
		}
		text, prompt, _ = strings.Cut(text, "\n</message "+boundary+">")
		all = append(all, text)
	}
}

// markersOf returns the marker of the message that a prompt is about, and those of the
// others that its turn answers.
func markersOf(prompt string) (marker string, with []string) {
	for _, text := range messagesOf(prompt) {
		if m := wish.FindStringSubmatch(text); m != nil {
			with = append(with, m[1])
		}
	}
	if len(with) == 0 {
		return "", nil
	}
	return with[len(with)-1], with[:len(with)-1]
}

// sharesTurn reports whether the message with this end of a key was answered together with a newer
// one.
func (h history) sharesTurn(ending string) bool {
	return h.any(func(l line) bool {
		return slices.ContainsFunc(l.Collected, func(other state.Message) bool { return strings.HasSuffix(other.Key, ending) })
	})
}

// hurtMarkers returns the markers of the messages whose payloads were damaged. The
// caller must hold mu.
func (r *record) hurtMarkers(h history) map[string]bool {
	hurt := map[string]bool{}
	if len(r.hurt) == 0 {
		return hurt
	}
	for _, l := range h.lines {
		if l.Kind == "message" && r.wasHurt(l.Key) {
			hurt[r.markerOfKey(l.Key)] = true
		}
	}
	return hurt
}

// checkCollecting checks that no message waits longer for others than three silences.
func (w *World) checkCollecting() {
	longest := w.settings().longest
	if longest == 0 {
		return
	}
	s, _ := w.state()
	for _, m := range s.Inbox {
		if !strings.HasPrefix(m.Reason, collecting) {
			continue
		}
		w.count.happened("a message waited for what its sender still writes")
		if standsAlone(m) {
			w.violate("collect", "%s waits for others, and is to have an answer of its own", m.Key)
		}
		if wait := m.NextRetryAt.Sub(m.Observed); wait > 3*longest && !w.clock.wasWrong() {
			w.violate("collect", "%s waits %s for its sender, and the silence was never more than %s", m.Key, wait, longest)
		}
	}
}

// standsAlone reports whether the sender waits for an answer to this message alone.
func standsAlone(m state.Message) bool { return m.Kind == "ask" || m.AsksFields }

// checkCollected checks that the messages that shared a turn have one sender, that each
// was in the prompt of the attempt that answered it, and ended once.
func (w *World) checkCollected(h history) {
	hurt := w.record.hurtMarkers(h)
	for _, task := range h.lines {
		if task.Kind != "task" || len(task.Collected) == 0 || task.Row == nil {
			continue
		}
		w.count.happened("messages of one sender shared a turn")
		for _, other := range append(slices.Clone(task.Collected), *task.Row) {
			if standsAlone(other) {
				w.violate("collect", "%s shares turn %s, and is to have an answer of its own", other.Key, task.TurnID)
			}
			if sender := fmt.Sprint(other.Source, other.From, other.Proof); sender != fmt.Sprint(task.Row.Source, task.Row.From, task.Row.Proof) {
				w.violate("collect", "%s of %s shares turn %s with %s", other.Key, sender, task.TurnID, task.Row.Key)
			}
			if n := len(h.tasks[other.Key]); n != 1 {
				w.violate("collect", "%s had %d endings", other.Key, n)
			}
			marker := w.record.markerOfKey(other.Key)
			for _, p := range w.record.prompts {
				if marker != "" && !hurt[marker] && p.turn == task.TurnID && p.marker != marker && !slices.Contains(p.with, marker) {
					w.violate("collect", "%s.%d is not shown %s, which it answers:\n%s", p.turn, p.epoch, marker, p.text)
				}
			}
		}
	}
}
