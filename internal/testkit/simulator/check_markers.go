package simulator

import (
	"fmt"
	"strings"
)

// checkMarkers checks that each prompt has the message of its turn, as it was sent:
// not a part of it, and not one that a damage has altered.
func (w *World) checkMarkers(h history) {
	keys := map[string]string{} // by turn and epoch: what a turn collects may have another lead later
	for _, l := range h.lines {
		if l.Kind == "turn" && l.What == "dispatched" {
			keys[fmt.Sprintf("%s.%d", l.TurnID, l.Epoch)] = l.Key
		}
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	for _, p := range w.record.prompts {
		want := w.record.markerOfKey(keys[fmt.Sprintf("%s.%d", p.turn, p.epoch)])
		if want != "" && p.marker != want {
			w.violate("payload", "the prompt of %s.%d has the message %q, want %s:\n%s", p.turn, p.epoch, p.marker, want, p.text)
		}
	}
}

// markerOfKey returns the marker of the message under a key of the inbox, or "". The
// caller must hold mu.
func (r *record) markerOfKey(key string) string {
	if key == "" {
		return ""
	}
	for _, l := range r.incoming {
		if l.hasKey(key+`"`) && l.control == "" && !l.unmarked {
			return l.marker
		}
	}
	for _, m := range r.meshMessages {
		if strings.HasSuffix(key, ":"+m.id) {
			return m.marker
		}
	}
	for _, e := range r.programs {
		if e.has(key) {
			return e.marker
		}
	}
	for _, t := range r.tells {
		if t.key == key {
			return t.marker
		}
	}
	return ""
}
