package simulator

import (
	"context"
	"encoding/json"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
)

// maxCalmPolls is the number of polls within which the agent must come to rest, and
// calmStep the time between two. Back-off ends within an hour, waiting for reports
// within ten minutes, and silence after ten more.
const (
	maxCalmPolls = 60
	calmStep     = 4 * time.Minute

	maxNights = 12 // in addition, to wait for the budget of another day, or for a mail

	missed = 3 * time.Hour // time to wait for a mail at once
)

// calm ends every fault, lifts every HALT and polls like cron until no work is left. The agent must
// come to rest by itself.
func (w *World) calm() {
	w.logf("     %s  calm", w.clock.machine().Format("Jan 2 15:04:05"))
	w.mu.Lock()
	clear(w.outages)
	w.inside, w.current.prompts, w.calmed = nil, nil, true
	w.mu.Unlock()
	w.limit(0)
	w.mendHooks()
	w.recoverAll()
	w.crontab.setMode("")
	if err := w.crontab.obeyHint(); err != nil {
		w.violate("simulator", "edit the crontab: %v", err)
	}
	w.clock.settle()
	w.sweep()
	for !w.setMeshHalt(false) {
		w.clock.pass(time.Minute)
	}
	w.topUp(Step{}, plenty)
	waiting := 0 // messages, each of which may suspend its turn for most of an hour
	for n, nights, naps := 0, 0, 0; n < maxCalmPolls; n++ {
		w.clock.pass(calmStep)
		r, err := w.poll(nil, cycle.PollOptions{})
		if err != nil {
			w.violate("6", "after all faults ended a poll fails: %v", err)
		}
		w.checkAlways()
		if w.over() {
			return
		}
		s, err := w.status()
		if err != nil {
			w.violate("6", "after all faults ended status fails: %v", err)
		}
		if s.Halted { // a mail with HALT may have been read only now
			w.run("go", nil, func(ctx context.Context, a *cycle.Agent) error { _, err := a.Resume(ctx, ""); return err })
		}
		if s.Inbox.Waiting < waiting {
			n = 0
		}
		waiting = s.Inbox.Waiting
		// If the machine is busy, a server may be slow and still hold a message.
		rests := isAtRest(s) && len(r.Failed) == 0 && !w.mailWaits()
		switch {
		case rests && w.missesMail() && nights < maxNights: // until its next try, or the sweep of another day
			w.clock.pass(missed)
			nights, n = nights+1, 0
		case rests && naps < maxNaps && w.awaitSelf(s):
			naps, n = naps+1, 0
		case rests:
			w.clock.pass(31 * time.Minute) // the crontab is checked twice an hour
			w.poll(nil, cycle.PollOptions{})
			if s, err := w.status(); err != nil || isAtRest(s) || nights == maxNights {
				w.finish()
				return
			}
			nights, n = nights+1, 0 // a withheld mail has come
		case (s.Tier == "dead" || s.Tier == "critical") && nights < maxNights:
			w.sleepOver()
			nights, n = nights+1, 0
		}
	}
	s, err := w.status()
	data, _ := json.Marshal(s)
	w.violate("6", "after all faults ended the agent does not come to rest: %s, %v", data, err)
}

// missesMail reports whether a mail that must come in has not.
func (w *World) missesMail() bool {
	known := w.known()
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	for _, l := range w.record.incoming {
		if len(l.uids) > 0 && l.fate != ignored && !l.gone && !l.excused() && !l.isAmong(known) {
			return true
		}
	}
	return false
}

// finish makes more polls. The last one must be empty and make only the connections of an empty
// poll.
func (w *World) finish() {
	var r cycle.Report
	var err error
	var conns map[string]int
	var reads []string
	// Try three times: on a busy machine a server may be too slow once, the
	// registry is updated twice a day, a sweep is made once a day, and the operator is asked about unproven
	// mails one after the other.
	for range 3 {
		w.clock.pass(time.Minute)
		w.record.traffic()
		r, err = w.poll(nil, cycle.PollOptions{})
		conns, reads = w.record.traffic()
		if err == nil && len(r.Failed) == 0 && conns["mesh"] == 1 && r.Sent+r.Posted == 0 && len(reads) < 2 {
			break
		}
	}
	if err != nil || r.Found() || len(r.Failed) > 0 {
		w.violate("6", "a poll at rest finds something: %+v, %v", r, err)
	}
	if conns["imap"] != 1 || conns["mesh"] != 1 || conns["smtp"] != 0 {
		w.violate("9", "an empty poll makes these connections: %v", conns)
	}
	if len(reads) > 1 { // a mail that is gone must not be fetched again
		w.violate("9", "an empty poll reads the mailbox %d times: %q", len(reads), reads)
	}
}

// status returns the answer of the command `status`. Its process only reads, so the crontab stays
// as the poll before left it.
func (w *World) status() (s view.Status, err error) {
	defer w.restful.Store(w.restful.Load())
	w.run("status", nil, func(_ context.Context, a *cycle.Agent) error {
		s, err = a.View().Status()
		return err
	})
	return s, err
}

// isAtRest reports whether no work waits or runs, according to `status`.
func isAtRest(s view.Status) bool {
	return s.Phase == "IDLE" && !s.Halted && s.Inbox.Waiting+s.Inbox.Deferred+s.Outbox.Waiting == 0 && s.Turn.Status == "idle"
}
