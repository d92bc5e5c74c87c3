package simulator

import (
	"context"
	"errors"
	"slices"
	"strings"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// handleOutbox plays a person who sends a row that was given up after all, or drops
// it.
func (w *World) handleOutbox(s Step) error {
	var given []string
	w.run("outbox list", nil, func(_ context.Context, a *cycle.Agent) error {
		rows, err := a.Outbox()
		for _, row := range rows {
			if row.Status == cycle.RowUndelivered {
				given = append(given, row.ID)
			}
		}
		return err
	})
	if len(given) == 0 {
		return nil
	}
	id := given[s.N%len(given)]
	w.count.happened("outbox " + s.Kind)
	return w.command(s, func(ctx context.Context, a *cycle.Agent) (err error) {
		if s.Kind == "retry" {
			_, _, err = a.RetryEffect(ctx, id)
		} else {
			w.record.mu.Lock()
			w.record.struck[id] = true
			w.record.mu.Unlock()
			err = a.DropEffect(ctx, id, "by hand")
		}
		if errors.Is(err, cycle.ErrBusy) {
			return nil
		}
		return err
	})
}

// gaveUp reports whether the answer to a mail was given up, alone or with others.
func (h history) gaveUp(mail *incomingMail) bool {
	return slices.ContainsFunc(h.lines, func(l line) bool {
		answers := l.Kind == "turn" && l.What == "dispatched" && mail.hasKey(l.Key+`"`) ||
			slices.ContainsFunc(l.Collected, func(other state.Message) bool { return mail.hasKey(other.Key + `"`) })
		return answers && h.undeliverable(replyKind+l.TurnID)
	})
}

// checkGivenUp checks that the operator hears of each answer that was given up,
// without what it says, unless it was sent after all or dropped.
func (w *World) checkGivenUp(h history) {
	ended := map[string]string{} // by the id of the effect: what became of it last
	for _, l := range h.lines {
		if l.Kind == "delivery" {
			ended[l.ID] = l.What
		}
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	for _, id := range sortedKeys(ended) {
		kind, _, _ := strings.Cut(id, ".")
		if ended[id] != "undeliverable" || w.record.struck[id] || kind != "reply" && kind != "answer" {
			continue
		}
		w.count.happened("an answer was given up")
		if w.record.wentThrough(h, id) && !w.record.mentions(id) {
			w.violate("sending", "%s was given up, mails went through since, and none tells of it", id)
		}
	}
	for _, o := range w.record.mails {
		if o.kind == "notice" && deliverables.MatchString(o.text) {
			w.violate("sending", "%s has what was refused: %s", o.id, o.text)
		}
	}
}

// wentThrough reports whether a mail went through after an effect was given up. The
// caller must hold mu.
func (r *record) wentThrough(h history, id string) bool {
	after := false
	for _, l := range h.lines {
		switch {
		case l.Kind == "delivery" && l.ID == id:
			after = l.What == "undeliverable"
		case after && l.Kind == "delivery" && l.What == "sent" && !strings.HasPrefix(l.ID, "notice"):
			for mail := range r.mails {
				if effectOf(mail) == l.ID {
					return true
				}
			}
		}
	}
	return false
}
