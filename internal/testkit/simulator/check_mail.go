package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/state"
)

// checkPrompts checks that only the operator and listed peers cause turns, and that
// a message has one turn.
func (w *World) checkPrompts(h history) {
	barred := map[string]fmt.Stringer{}
	again := map[string]bool{} // several copies of it were released
	for _, l := range w.record.incoming {
		if l.fate != answered && l.fate != settles && !l.touched() {
			barred[l.marker] = l
		}
		again[l.marker] = l.sure+l.maybe > 1
	}
	for _, p := range w.record.meshMessages {
		if p.fate != answered && !p.touched() {
			barred[p.marker] = p
		}
	}
	hurt := w.record.hurtMarkers(h)
	turnOf := map[string]string{}
	for _, p := range w.record.prompts {
		for marker, message := range barred {
			if strings.Contains(p.text, marker) {
				w.violate("4", "%s is in the prompt of %s.%d:\n%s", message, p.turn, p.epoch, p.text)
			}
		}
		if p.marker == "" || h.isFollowUp(p.turn) {
			continue
		}
		for _, marker := range append([]string{p.marker}, p.with...) {
			if other, ok := turnOf[marker]; ok && other != p.turn && !again[marker] && !hurt[marker] {
				w.violate("2", "%s had two turns, %s and %s", marker, other, p.turn)
			}
			turnOf[marker] = p.turn
		}
	}
}

// replies returns the sent effects of a kind by the message that each answers.
func replies(sent map[string]*outgoing, kind string) map[string][]*outgoing {
	by := map[string][]*outgoing{}
	for _, id := range sortedKeys(sent) {
		if o := sent[id]; o.kind == kind {
			by[o.answers] = append(by[o.answers], o)
		}
	}
	return by
}

// checkMails checks that each mail had its reply or answer.
func (w *World) checkMails(h history) {
	reply, answer := withoutSelf(h, replies(w.record.mails, "reply")), replies(w.record.mails, "answer")
	hurt := w.lostByDamage(h)
	for _, l := range w.record.incoming {
		n, wanted := len(reply[l.id])+w.record.otherReplies(h, l), 0
		switch l.fate {
		case answered:
			wanted = 1
		case settles:
			if !h.settled(l) && (l.kind != "verdict unproved" || n > 0) {
				wanted = 1
			}
		case obeyed:
			if n := len(answer[l.id]); n != 1 && !(l.excused() && n == 0) && !h.undeliverable(answerKind) {
				w.violate("1", "%s was obeyed, and answered %d times", l, n)
			}
		}
		w.checkAnswered(l, l.releases, n, wanted, l.excused() || l.isAmong(hurt) || h.gaveUp(l))
	}
	for id, list := range reply {
		if id != "" && !slices.ContainsFunc(w.record.incoming, func(l *incomingMail) bool { return l.id == id }) {
			w.violate("4", "%s does not answer any mail that came in", list[0].id)
		}
	}
	for _, o := range w.record.mails {
		if !strings.Contains(o.to, operator) {
			w.violate("4", "%s went to %s", o.id, o.to)
		}
		if o.kind == "reply" {
			w.checkText(o.id, o.text)
		}
		if (o.kind == "ack" || o.kind == "quiet" || o.kind == "working") && o.copies > 1 {
			w.violate("3", "%s was sent %d times", o.id, o.copies)
		}
	}
}

// otherReplies returns the number of replies to a mail that are not In-Reply-To it: its payload was
// damaged when they were made, or, counted once, they are to a newer mail, and name this one as well.
// The caller must hold mu.
func (r *record) otherReplies(h history, l *incomingMail) (n int) {
	with := 0
	for turn, task := range h.ends {
		own := l.hasKey(task.Key) && r.wasHurt(task.Key)
		shares := slices.ContainsFunc(task.Collected, func(other state.Message) bool { return l.hasKey(other.Key) })
		if !own && !shares {
			continue
		}
		hurt := slices.ContainsFunc(task.Collected, func(other state.Message) bool { return l.hasKey(other.Key) && r.wasHurt(other.Key) })
		for _, o := range r.mailed(replyKind + turn) {
			if own && o.answers == "" {
				n++
			}
			if shares && (hurt || strings.Contains(o.refs, "<"+l.id+">")) {
				with = 1
			}
		}
	}
	return n + with
}

// checkMarkers checks that each prompt has the whole message of its turn, without damage.
func (w *World) checkMarkers(h history) {
	for _, p := range w.record.prompts {
		want := w.record.markerOfKey(h.dispatch(p.turn, p.epoch).Key) // another message of a shared turn may lead it later
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
		if l.hasKey(key) && !l.unmarked {
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

// checkRate checks that mail of the operator above the limit of an hour costs no turn
// before the hour has room, and that the operator hears of it once (docs/design.md,
// "The inbox").
func (w *World) checkRate(h history) {
	if w.clock.wasSetBack() {
		return
	}
	first := map[string]time.Time{} // when a message had its first turn, by key
	for _, l := range h.lines {
		if _, again := first[l.Key]; l.Kind == "turn" && l.What == state.WordDispatched && !again {
			first[l.Key] = l.At
		}
	}
	var ran []time.Time // when the hour began to hold a mail
	deferred := false
	for _, l := range h.lines {
		if l.Kind != "message" || l.What == state.WordReport || l.Source != "mail" || l.Message == nil || !l.Message.Operator || w.record.wasLetIn(l.Key) {
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
		if strings.Contains(o.words(), "mails must wait, because more than") {
			told = append(told, h.queued[effectOf(o.id)].At) // HALT may hold it back for hours
		}
	}
	slices.SortFunc(told, time.Time.Compare)
	if deferred && len(told) == 0 && !h.undeliverable("notice") {
		w.violate("rate", "mails were above the limit of the hour, and the operator was not told")
	}
	for i := 1; i < len(told); i++ {
		_, fixed := w.record.rateBetween(told[i-1], told[i])
		if fixed && told[i].Sub(told[i-1]) < time.Hour && !h.recovered {
			w.violate("rate", "the operator heard at %s and at %s that mails wait", told[i-1], told[i])
		}
	}
}

// rateChange is a limit of mails an hour, from a moment of the machine's clock on.
type rateChange struct {
	at   time.Time
	rate int
}

// limit sets how many mails of the operator may run within an hour.
func (w *World) limit(n int) {
	w.mu.Lock()
	w.current.rate = n
	w.mu.Unlock()
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.record.rates = append(w.record.rates, rateChange{w.clock.machine(), n})
}

// rateBetween returns the limit from one moment to another. fixed is false if it was
// changed between them, or at one of them, where the order is unknown. The caller must
// hold mu.
func (r *record) rateBetween(from, to time.Time) (rate int, fixed bool) {
	fixed = true
	for _, c := range r.rates {
		switch {
		case c.at.Before(from):
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
	return slices.ContainsFunc(r.incoming, func(l *incomingMail) bool { return l.hasKey(key) && l.touched() })
}
