package simulator

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"agentstateloop/cycle"
)

// checkEnd checks the end of a process that was not killed.
func (w *World) checkEnd(p *process, err error) {
	w.count.began(&w.count.Processes)
	if err == nil && w.rung.Load() && w.depth() == 1 && p.strikes == w.strikes.Load() {
		w.checkNudgeSeen(p)
	}
	if err == nil || errors.Is(err, cycle.ErrBusy) || aborted(err) {
		return
	}
	w.mu.Lock()
	struck := w.strikes.Load() > 0 || len(w.outages) > 0
	w.mu.Unlock()
	if p.name == "poll" && !struck {
		w.violate("6", "a poll that no fault struck failed: %v", err)
	}
}

// checkNudgeSeen checks that a cycle has seen a nudge that came while it was
// running, or has left it to a detached poll.
func (w *World) checkNudgeSeen(p *process) {
	for range 100 {
		if len(w.nudgesLeft()) == 0 {
			return
		}
		if _, err := os.Stat(w.detached() + ".started"); err == nil {
			w.count.happened("a nudge was left to a detached poll")
			return
		}
		time.Sleep(20 * time.Millisecond) // the detached poll is a process of its own; its only sign is a file
	}
	w.violate("7", "%s was nudged while it was running, and did not look again", p.name)
}

// checkAlways checks the invariants after each step.
func (w *World) checkAlways() {
	if what := w.crontab.foreignChange(); what != "" {
		w.violate("5", "%s", what)
	}
	if w.crontab.tornRestored() {
		w.count.happened("a torn crontab was restored")
	}
	h := w.readHistory()
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.checkHistory(h, false)
	w.checkChain()
	if w.record.rolledBack() {
		w.record.checkNotTwice()
		return
	}
	w.checkPrompts(h)
	w.checkHalt(h)
	w.checkCollecting()
}

// haltSnapshot holds the counts that must not change from step to step under HALT.
type haltSnapshot struct {
	halted                bool
	halts, prompts, sends int
}

// checkHalt checks that under HALT no attempt is made, and that only answers to controls are sent
// (docs/design.md, "HALT").
func (w *World) checkHalt(h history) {
	halted := haltedBy{}
	var now haltSnapshot
	for _, l := range h.lines {
		halted.read(l)
		if l.Kind == "halt" {
			now.halts++
		}
	}
	now.halted = halted.any()
	now.prompts = len(w.record.prompts)
	for id, o := range w.record.sent() {
		if !strings.HasPrefix(id, answerKind) {
			now.sends += o.copies
		}
	}
	if was := w.record.underHalt; was.halted && was.halts == now.halts && was != now {
		w.violate("HALT", "under HALT, %d attempts and %d sends became %d and %d", was.prompts, was.sends, now.prompts, now.sends)
	}
	w.record.underHalt = now
}

// checkAll compares the messages that went in with the effects that came out, after the world is
// calm. The checks in its list run while the record is locked.
func (w *World) checkAll() {
	h := w.readHistory()
	status, err := w.status()
	if err != nil {
		w.violate("6", "status: %v", err)
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.checkMoney(w.checkHistory(h, true), status.Spend)
	for _, check := range []func(history){
		w.checkSources, w.checkCrontab, w.checkCopies,
		w.checkMails, w.checkMeshMessages, w.checkContract, w.checkTells, w.checkSelf, w.checkClockPrompts, w.checkPrograms, w.checkHooks, w.checkNudges,
		w.checkCredentialMessages, w.checkRelays, w.checkTokens, w.checkDoubts, w.checkMemory, w.checkSecrets, w.checkQuarantine, w.checkMarkers,
		w.checkTellings, w.checkRate, w.checkGivenUp, w.checkReturned, w.checkSeen, w.checkOutside, w.checkAsking, w.checkCollected,
		w.checkNATS, w.checkOutages,
	} {
		check(h)
	}
}

// checkMeshMessages checks that each mesh message has one report, or no report if it must not have
// one.
func (w *World) checkMeshMessages(h history) {
	reports := withoutSelf(h, replies(w.record.reports, "report"))
	for _, p := range w.record.meshMessages {
		wanted := 0
		if (p.fate == answered || p.fate == obeyed) && !h.sharesTurn(":"+p.id) { // the report on the newest is for all
			wanted = 1
		}
		w.checkAnswered(p, p.releases, len(reports[p.correlation]), wanted, h.undeliverable(""))
	}
	for _, o := range w.record.reports {
		w.checkText(o.id, o.text)
	}
}

// checkAnswered checks that a mail or message had n answers as wanted, or as its releases allow. An
// excused one need not have an answer.
func (w *World) checkAnswered(subject fmt.Stringer, by releases, n, wanted int, excused bool) {
	if n == wanted || by.touched() && by.within(n) || n == 0 && excused {
		return
	}
	promise := "2"
	switch {
	case wanted == 0:
		promise = "4"
	case n < wanted:
		promise = "1"
	}
	w.violate(promise, "%s has %d answers, want %d", subject, n, wanted)
}

// checkText checks that a deliverable is complete, and comes from an attempt whose
// turn was not over.
func (w *World) checkText(what, text string) {
	switch {
	case strings.TrimSpace(text) == "":
		w.violate("2", "%s is empty", what)
	case strings.Contains(text, "too late") && !w.record.lateTaken:
		w.violate("2", "%s comes from an agent whose turn was over", what)
	case strings.Contains(text, "cannot be read"):
		w.violate("2", "%s says that the submitted deliverable is missing: %s", what, text)
	}
}

// checkTells checks that each `tell` that was accepted had its turn, and that the answer to a
// `tell --mail` was mailed.
func (w *World) checkTells(h history) {
	hurt := w.lostByDamage(h)
	for _, t := range w.record.tells {
		if t.key == "" {
			continue
		}
		task := h.tasks[t.key]
		if len(task) == 0 && hurt[t.key] {
			continue
		}
		if len(task) != 1 {
			w.violate("1", "%s (tell) has %d ended turns", t.marker, len(task))
			continue
		}
		if t.byMail {
			w.checkMailed(h, t.marker, task[0])
		}
		text, err := w.deliverable(task[0])
		if err != nil {
			w.violate("2", "%s (tell): read its deliverable: %v", t.marker, err)
			continue
		}
		w.checkText(t.marker+" (tell)", text)
	}
}

// checkNudges checks that each durable nudge was accepted.
func (w *World) checkNudges(h history) {
	for _, name := range w.record.nudgeFiles {
		if !h.any(func(l line) bool { return l.Kind == "nudge" && strings.Contains(l.Key, name) }) {
			w.violate("7", "nudge %s was never accepted", name)
		}
	}
}

// checkSources checks that no message and no nudge is left at its source. A payload that cannot be
// decoded is acknowledged if it has an id.
func (w *World) checkSources(history) {
	if left := w.leftOnMesh(); len(left) > 0 {
		w.violate("1", "%d messages were left on the mesh: %q", len(left), left)
	}
	if names := w.nudgesLeft(); len(names) > 0 {
		w.violate("7", "nudges were left: %v", names)
	}
	for _, j := range w.record.junk {
		if j.id != "" && !j.acked {
			w.violate("1", "the message %s of the mesh, which cannot be decoded, was not acknowledged", j.id)
		}
	}
}

// checkSeen checks that mail for this agent is marked as read, and no other.
func (w *World) checkSeen(history) {
	seen, err := w.flags()
	if err != nil {
		w.violate("simulator", "read the mailbox: %v", err)
		return
	}
	for _, l := range w.record.incoming {
		for _, uid := range l.uids {
			switch {
			case l.fate == ignored && seen[uid] && !l.read && !l.real:
				w.violate("1", "%s, which is not for us, was marked as read", l)
			case l.fate == answered && !seen[uid] && !l.gone && !l.passed:
				w.violate("1", "%s was not marked as read", l)
			}
		}
	}
}

// checkCrontab checks that the crontab at rest has one line of ours, the idle one. An alarm line
// may follow it if the operator is still to be asked about a mail.
func (w *World) checkCrontab(h history) {
	ours, _, err := w.crontab.read()
	want := fmt.Sprintf("*/30 * * * * '%s' --config '%s' poll --if-due --quiet # agentstateloop %s", binary, config, handle)
	if len(ours) == 2 && isAlarm(ours[1]) && h.asksLater() {
		ours = ours[:1]
	}
	if err != nil || len(ours) != 1 || ours[0] != want {
		w.violate("9", "the crontab has these lines of ours: %q (%v), want %q", ours, err, want)
	}
}
