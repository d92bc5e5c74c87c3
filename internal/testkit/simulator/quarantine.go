package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"agentstateloop/cycle"
)

// releases counts how often a person has released or dropped what the gate rejected.
// maybe counts commands that were killed or failed, and may have released it.
type releases struct {
	sure, maybe, dropped int
}

func (l releases) touched() bool { return l.sure+l.maybe > 0 }

// within reports whether n answers agree with the releases.
func (l releases) within(n int) bool { return n >= l.sure && n <= l.sure+l.maybe }

// release releases or drops an item of the quarantine.
func (w *World) release(s Step) error {
	var keys []string
	w.run("inbox list", nil, func(_ context.Context, a *cycle.Agent) error {
		items, err := a.View().Quarantined()
		for _, item := range items {
			keys = append(keys, item.Key)
		}
		return err
	})
	key, entry := w.record.quarantined(keys, s.N)
	if entry == nil {
		return nil
	}
	already := false
	err, killed := w.run("inbox "+s.Kind, s.Faults, func(ctx context.Context, a *cycle.Agent) (err error) {
		if s.Kind == "drop" {
			return a.Expel(ctx, key, "by hand")
		}
		already, err = a.Release(ctx, key)
		return err
	})
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	switch {
	case s.Kind == "drop":
		entry.dropped++
	case killed || err != nil:
		entry.maybe++
	case !already:
		entry.sure++
		w.count.happened("an item of the quarantine was released")
	}
	return err
}

// quarantined selects one of the rejected items that are in quarantine.
func (r *record) quarantined(keys []string, n int) (key string, entry *releases) {
	r.mu.Lock()
	defer r.mu.Unlock()
	type item struct {
		key   string
		entry *releases
	}
	var items []item
	for _, l := range r.incoming {
		for _, end := range l.keys {
			for _, key := range keys {
				if l.fate == kept && strings.HasSuffix(key+`"`, end) {
					items = append(items, item{key, &l.releases})
				}
			}
		}
	}
	for _, p := range r.meshMessages {
		for _, key := range keys {
			if p.fate == kept && p.kind != "whisper" && strings.HasSuffix(key, ":"+p.id) {
				items = append(items, item{key, &p.releases})
			}
		}
	}
	if len(items) == 0 {
		return "", nil
	}
	return items[n%len(items)].key, items[n%len(items)].entry
}

// checkQuarantine checks that what the gate rejected is in quarantine, with the
// reason. A folder without a reason was left by a crash.
func (w *World) checkQuarantine(h history) {
	files, _ := filepath.Glob(filepath.Join(w.stateDir(), "quarantine", "*", "verdict.json"))
	var there [][]byte
	for _, file := range files {
		var verdict struct{ Key, Gate, Reason string }
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &verdict) != nil || verdict.Key == "" || verdict.Gate == "" || verdict.Reason == "" {
			w.violate("4", "%s lacks the gate or the reason: %q, %v", file, text, err)
		}
		for _, name := range []string{"message.eml", "message.json"} {
			if data, err := os.ReadFile(filepath.Join(filepath.Dir(file), name)); err == nil {
				there = append(there, data)
			}
		}
	}
	holds := func(evidence []byte) bool {
		for _, data := range there {
			if bytes.Contains(data, evidence) {
				return true
			}
		}
		return false
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	answers, reports := replies(w.record.mails, "reply"), replies(w.record.reports, "report")
	hurt := w.lostByDamage(h) // after its release
	for _, l := range w.record.incoming {
		if l.fate == kept && l.dropped == 0 && !l.excused() && !l.isAmong(hurt) && len(answers[l.id])+w.record.unthreaded(h, l)+w.record.answeredWith(h, l) == 0 && !h.undeliverable(replyKind) && !holds(l.raw) {
			w.violate("4", "%s (mail %s) was rejected, but is not in quarantine", l.marker, l.kind)
		}
	}
	for _, p := range w.record.meshMessages {
		if p.fate == kept && p.dropped == 0 && len(reports[p.correlation]) == 0 && !h.sharesTurn(":"+p.id) && !holds([]byte(p.marker)) {
			w.violate("4", "%s (message %s) was rejected, but is not in quarantine", p.marker, p.kind)
		}
	}
}
