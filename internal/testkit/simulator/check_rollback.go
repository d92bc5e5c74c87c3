package simulator

import (
	"slices"
	"strings"

	"agentstateloop/state"
)

// These checks hold the promise of a restore: no answer twice, no mail lost (docs/protocol.md,
// "After a restore"). They use the record of the outside, because a rollback takes the history back.

// endRolledBack checks the end of a story with a rollback. The agent is at rest. Then the operator
// lets in what the restore holds, and the agent comes to rest again.
func (w *World) endRolledBack() {
	w.checkNothingLost()
	if w.over() {
		return
	}
	w.letIn()
	w.calm()
	if !w.over() {
		w.checkAllAnswered()
	}
	if !w.over() && !w.wasRolledBack() {
		w.checkAll() // only moves
	}
}

// checkNotTwice checks that a mail or message has one turn and one answer, and one more for each
// time that a person let it in, and for each rollback at which no server showed that it ran. The
// caller must hold mu.
func (r *record) checkNotTwice() {
	turns := map[string][]string{}
	for _, p := range r.prompts {
		if p.marker != "" && !slices.Contains(turns[p.marker], p.turn) {
			turns[p.marker] = append(turns[p.marker], p.turn)
		}
	}
	mails, reports := replies(r.mails, "reply"), replies(r.reports, "report")
	for _, l := range r.incoming {
		most := 1 + l.maybe + l.sure
		for _, b := range r.rollbacks {
			if slices.Contains(b.unread, l.marker) {
				most++
			}
		}
		if l.fate != answered {
			most = 0
		}
		r.checkMost(l.String(), len(turns[l.marker]), len(mails[l.id]), most)
	}
	for _, m := range r.meshMessages {
		most := 1 + m.maybe + m.sure
		for _, b := range r.rollbacks {
			if b.left.has(m) {
				most++
			}
		}
		r.checkMost(m.String(), len(turns[m.marker]), len(reports[m.correlation]), most)
	}
}

func (r *record) checkMost(what string, turns, answers, most int) {
	if turns > most {
		r.world.violate("restore", "%s had %d turns, at most %d", what, turns, most)
	}
	if answers > most {
		r.world.violate("restore", "%s had %d answers, at most %d", what, answers, most)
	}
}

// left are the messages that the mesh had at some time.
type left []string

func (l left) has(m *meshMessage) bool {
	return slices.ContainsFunc(l, func(text string) bool { return strings.Contains(text, m.id) })
}

// checkNothingLost checks, while the agent is at rest, that each mail of the operator is answered,
// or waits for a person and is named in a mail to the operator.
func (w *World) checkNothingLost() {
	rows, items, effects := w.heldKeys()
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.record.checkNotTwice()
	if !w.record.rolledBack() && len(rows)+len(items)+len(effects) > 0 {
		w.violate("restore", "after a move these wait for a person: %q %q %q", rows, items, effects)
	}
	mails := replies(w.record.mails, "reply")
	for _, l := range w.record.incoming {
		if l.fate != answered || l.gone || len(mails[l.id]) > 0 {
			continue
		}
		waits := slices.ContainsFunc(slices.Concat(rows, items), l.hasKey)
		if !l.read && slices.ContainsFunc(items, l.hasKey) && slices.Contains(w.record.lastRollback().unread, l.marker) && l.kind != "twice" {
			w.violate("restore", "%s was unread at the restore, and waits for a person", l)
		}
		switch {
		case !waits && !w.record.waitsToLeave(l, effects):
			w.violate("restore", "%s is not answered, and waits for nobody", l)
		case waits && !w.record.listed(l):
			w.violate("restore", "%s waits for a person, and no mail names it", l)
		case waits:
			w.count.happened("a mail of the operator was held after a restore")
		}
	}
	w.checkEvidence(slices.Concat(rows, items))
	last := w.record.lastRollback()
	for _, m := range w.record.meshMessages {
		known := len(replies(w.record.reports, "report")[m.correlation]) > 0 || slices.ContainsFunc(slices.Concat(rows, items), func(key string) bool { return strings.HasSuffix(key, ":"+m.id) })
		if m.fate == answered && !known && last.left.has(m) {
			w.violate("restore", "%s was not acknowledged before the restore, and is not answered", m)
		}
	}
}

// checkEvidence checks that no mail waits for a person whose answer is in the folder for sent mail,
// unless that folder could not be read. The caller must hold mu.
func (w *World) checkEvidence(waiting []string) {
	s, _ := w.state()
	mails := replies(w.record.mails, "reply")
	for _, l := range w.record.incoming {
		if s.Restore == nil || w.story.Sent != SentByServer || len(mails[l.id]) == 0 || l.kind == "twice" { // one copy may have run, and the other wait
			continue
		}
		if s.Restore.Blind == "" && slices.ContainsFunc(waiting, l.hasKey) {
			w.violate("restore", "%s waits for a person, and its answer is in the folder for sent mail", l)
		}
	}
	for _, l := range w.readHistory().lines {
		if l.is(state.LineEnded, state.Word(state.Skipped)) && l.Source == state.Mail {
			w.count.happened("an answered mail was recognised after a restore")
		}
	}
}

// checkNotSentAgain checks that a mail that left before a restore does not leave again, unless a
// person wants it. The caller must hold mu.
func (r *record) checkNotSentAgain(o *outgoing) {
	if _, byMesh := r.reports[o.id]; !byMesh && r.restores() > o.backs && !r.retried[effectOf(o.id)] {
		r.world.violate("restore", "%s left before the restore, and again after it", o.id)
	}
}

// waitsToLeave reports whether the answer to a mail is in one of these effects. The caller must hold
// mu.
func (r *record) waitsToLeave(l *incomingMail, effects []string) bool {
	h := r.world.readHistory()
	return slices.ContainsFunc(effects, func(id string) bool {
		return l.hasKey(h.ends[strings.TrimPrefix(id, replyKind)].Key)
	})
}

// listed reports whether a notice names a mail. The caller must hold mu.
func (r *record) listed(l *incomingMail) bool {
	for _, o := range r.mails {
		if o.kind == "notice" && strings.Contains(o.text, l.marker) && strings.Contains(o.text, "inbox re") {
			return true
		}
	}
	return false
}

func (r *record) lastRollback() rollback {
	if len(r.rollbacks) == 0 {
		return rollback{}
	}
	return r.rollbacks[len(r.rollbacks)-1]
}

// checkAllAnswered checks, after a person let in everything, that each mail of the operator has its
// answer, and only one if it came after the last rollback.
func (w *World) checkAllAnswered() {
	rows, items, effects := w.heldKeys()
	if len(rows)+len(items)+len(effects) > 0 {
		w.violate("restore", "a person has let in all, and these wait: %q %q %q", rows, items, effects)
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.record.checkNotTwice()
	mails, reports := replies(w.record.mails, "reply"), replies(w.record.reports, "report")
	last := w.record.lastRollback()
	for _, l := range w.record.incoming {
		if l.fate == answered && !l.gone && len(mails[l.id]) == 0 {
			w.violate("restore", "%s is not answered, although a person has let in all", l)
		}
		if l.fate == answered && l.at.After(last.at) && len(mails[l.id]) == 1 {
			w.count.happened("a mail after a rollback was answered")
		}
	}
	for _, m := range w.record.meshMessages {
		if m.fate == answered && len(reports[m.correlation]) == 0 && last.left.has(m) {
			w.violate("restore", "%s is not answered, although a person has let in all", m)
		}
	}
}
