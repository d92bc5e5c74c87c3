package simulator

import (
	"slices"
	"strings"
	"time"
)

// checkRate checks that mail of the operator above the limit of an hour costs no turn
// before the hour has room, and that the operator hears of it once (docs/design.md,
// "The inbox").
func (w *World) checkRate(h history) {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	if w.clock.wasSetBack() {
		return
	}
	first := map[string]time.Time{} // when a message had its first turn, by key
	for _, l := range h.lines {
		if _, again := first[l.Key]; l.Kind == "turn" && l.What == "dispatched" && !again {
			first[l.Key] = l.At
		}
	}
	var ran []time.Time // when the hour began to hold a mail
	deferred := false
	for _, l := range h.lines {
		if l.Kind != "message" || l.What == "report" || l.Source != "mail" || l.Message == nil || !l.Message.Operator || w.record.wasLetIn(l.Key) {
			continue
		}
		at, had := first[l.Key]
		if l.Message.Status != "deferred" || strings.HasPrefix(l.Message.Reason, collecting) {
			ran = append(ran, l.At)
			continue
		}
		deferred = true
		w.count.happened("a mail was above the limit of the hour")
		rate, fixed := w.record.rateBetween(l.At, at)
		slices.SortFunc(ran, time.Time.Compare)
		if had && fixed && rate > 0 && len(ran) >= rate && at.Before(ran[len(ran)-rate].Add(time.Hour)) {
			w.violate("rate", "%s had its turn at %s, although %d mails had come since %s", l.Key, at, rate, ran[len(ran)-rate])
		}
		if had {
			ran = append(ran, at)
		}
	}
	var told []time.Time
	for _, o := range w.record.mails {
		if strings.Contains(strings.Join(strings.Fields(o.text), " "), "mails must wait, because more than") {
			told = append(told, h.queuedAt(o.id))
		}
	}
	slices.SortFunc(told, time.Time.Compare)
	if deferred && len(told) == 0 && !h.undeliverable("notice") {
		w.violate("rate", "mails were above the limit of the hour, and the operator was not told")
	}
	for i := 1; i < len(told); i++ {
		_, fixed := w.record.rateBetween(told[i-1], told[i])
		if fixed && told[i].Sub(told[i-1]) < time.Hour && !h.says("recovery", "", "") {
			w.violate("rate", "the operator heard at %s and at %s that mails wait", told[i-1], told[i])
		}
	}
}

// queuedAt returns when a mail was queued, which HALT may hold back for hours.
func (h history) queuedAt(id string) (at time.Time) {
	for _, l := range h.lines {
		if l.Kind == "effect" && l.What == "queued" && effectOf(id) == l.ID {
			at = l.At
		}
	}
	return at
}

// rateChange is a limit of mails an hour, from a moment of the machine's clock on.
type rateChange struct {
	at   time.Time
	rate int
}

// limit sets how many mails of the operator may run within an hour.
func (w *World) limit(n int) {
	w.mu.Lock()
	w.rate = n
	w.mu.Unlock()
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.record.rates = append(w.record.rates, rateChange{w.clock.machine(), n})
}

// rateBetween returns the limit from one moment to another. fixed is false if it was
// changed between them. The caller must hold mu.
func (r *record) rateBetween(from, to time.Time) (rate int, fixed bool) {
	fixed = true
	for _, c := range r.rates {
		switch {
		case !c.at.After(from):
			rate = c.rate
		case !c.at.After(to):
			fixed = false
		}
	}
	return rate, fixed
}

// wasLetIn reports whether a person or a token may have let in the mail under a key.
// The caller must hold mu.
func (r *record) wasLetIn(key string) bool {
	return slices.ContainsFunc(r.incoming, func(l *incomingMail) bool { return l.hasKey(key+`"`) && l.touched() })
}
