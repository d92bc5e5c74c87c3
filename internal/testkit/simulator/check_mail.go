package simulator

import "strings"

// checkPrompts checks that only the operator and listed peers cause turns, and that
// a message has one turn.
func (w *World) checkPrompts(h history) {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	barred := map[string]string{}
	for _, l := range w.record.incoming {
		if l.fate != answered && l.fate != settles && !l.touched() {
			barred[l.marker] = "mail " + l.kind
		}
	}
	for _, p := range w.record.meshMessages {
		if p.fate != answered && !p.touched() {
			barred[p.marker] = "message " + p.kind
		}
	}
	again := map[string]bool{} // several copies of it were released
	for _, l := range w.record.incoming {
		again[l.marker] = l.sure+l.maybe > 1
	}
	hurt := w.record.hurtMarkers(h)
	turnOf := map[string]string{}
	for _, p := range w.record.prompts {
		for marker, what := range barred {
			if strings.Contains(p.text, marker) {
				w.violate("4", "%s (%s) is in the prompt of %s.%d:\n%s", marker, what, p.turn, p.epoch, p.text)
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

// replies returns the sent effects of a kind by the message that they answer.
func replies(sent map[string]*outgoing, kind string) map[string][]*outgoing {
	by := map[string][]*outgoing{}
	for _, id := range sortedKeys(sent) {
		if o := sent[id]; o.kind == kind {
			by[o.answers] = append(by[o.answers], o)
		}
	}
	return by
}

// checkMails checks that each mail had the reply or answer that it must have.
func (w *World) checkMails(h history) {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	reply, answer := withoutSelf(h, replies(w.record.mails, "reply")), replies(w.record.mails, "answer")
	hurt := w.lostByDamage(h)
	for _, l := range w.record.incoming {
		n, wanted, what := len(reply[l.id])+w.record.unthreaded(h, l)+w.record.answeredWith(h, l), 0, "replies"
		switch l.fate {
		case answered:
			wanted = 1
		case settles:
			if wanted = 1; h.settled(l) || l.kind == "verdict unproved" && n == 0 {
				wanted = 0
			}
		case obeyed:
			if n := len(answer[l.id]); n != 1 && !(l.excused() && n == 0) && !h.undeliverable(answerKind) {
				w.violate("1", "%s (mail %s) was answered %d times", l.marker, l.kind, n)
			}
		}
		if n == wanted || l.within(n) && l.touched() || n == 0 && (l.excused() || l.isAmong(hurt) || h.gaveUp(l)) {
			continue
		}
		promise := "2"
		if n < wanted {
			promise = "1"
		}
		if wanted == 0 {
			promise = "4"
		}
		w.violate(promise, "%s (mail %s) has %d %s, want %d", l.marker, l.kind, n, what, wanted)
	}
	for id, list := range reply {
		if id != "" && w.mailByID(id) == nil {
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

// unthreaded returns the number of replies to a mail that do not name it, because its
// payload was damaged when they were made. The caller must hold mu.
func (r *record) unthreaded(h history, l *incomingMail) (n int) {
	turns := map[string]bool{}
	for _, line := range h.lines {
		if line.Kind == "task" && r.wasHurt(line.Key) && l.hasKey(line.Key+`"`) {
			turns[line.TurnID] = true
		}
	}
	for turn := range turns {
		for id, o := range r.mails {
			if o.answers == "" && effectOf(id) == replyKind+turn {
				n++
			}
		}
	}
	return n
}

func (w *World) mailByID(id string) *incomingMail {
	for _, l := range w.record.incoming {
		if l.id == id {
			return l
		}
	}
	return nil
}
