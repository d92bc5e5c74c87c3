package fleettrial_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	longTenths  = 900 // longer than a lease and a takeover
	shortTenths = 10
)

// leaseTrials are what a host lives through while its agent works. Each returns when the other host
// has the seat.
var leaseTrials = []struct {
	name string
	run  func(*leaseTrial)
}{
	{"all its processes stop, and go on after the takeover", func(l *leaseTrial) { l.stopAll(false) }},
	{"all its processes stop, and go on while the other agent works", func(l *leaseTrial) { l.stopAll(true) }},
	{"it is cut off", (*leaseTrial).cutOff},
	{"it is cut off, and its runner stops", (*leaseTrial).cutOffWithoutRunner},
}

// TestLeases has the host that has the seat stop, or lose the servers, while its agent works. The
// other host takes the seat. The agent of the first host dies before its lease ends, or at once
// when its processes go on, and it changes nothing any more.
func TestLeases(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	var handles []string
	for n := range leaseTrials {
		handles = append(handles, fmt.Sprintf("agent%d", n))
	}
	e := newServers(t, handles...)
	d := newDesk(t, e)
	t.Run("trials", func(t *testing.T) {
		for n, trial := range leaseTrials {
			t.Run(trial.name, func(t *testing.T) {
				t.Parallel()
				a := newAgent(t, e, d, handles[n], shortTenths)
				a.hosts[0].setScript(a.life, longTenths)
				l := &leaseTrial{agent: a, alpha: a.hosts[0], beta: a.hosts[1]}
				for _, h := range a.hosts {
					h.cron()
				}
				l.number = a.order(t.Context())
				until(t, takeoverMargin, "the agent works", func() bool { return a.lives(l.number) })
				trial.run(l)
				until(t, orphan+2*takeoverMargin, "the report", func() bool { return len(d.reports(l.number)) > 0 })
				until(t, takeoverMargin, "alpha is a standby", func() bool { return !l.alpha.seat().Holds && l.alpha.seat().Head.Term == l.beta.seat().Head.Term })
				a.rest()
				if a.checkReports(); !l.overlap {
					a.check()
				}
			})
		}
	})
}

// leaseTrial is one of them.
type leaseTrial struct {
	*agent
	alpha, beta *host
	number      string
	overlap     bool // both agents lived for a moment, which cannot be helped
}

// taken waits until beta has the seat.
func (l *leaseTrial) taken() {
	l.t.Helper()
	until(l.t, lapse+2*pollEvery+takeoverMargin, "beta takes the seat", func() bool { return l.beta.seat().Holds })
}

// span returns the first and the last sign of the agent on a host.
func (l *leaseTrial) span(host string) (first, last time.Duration) {
	for _, s := range signs(l.t, l.life) {
		if s.host == host && first == 0 {
			first = s.at
		}
		if s.host == host {
			last = s.at
		}
	}
	return first, last
}

// stopAll stops all processes of alpha. They go on when beta has the seat, or when its agent works
// too.
func (l *leaseTrial) stopAll(overlap bool) {
	l.alpha.stopCron()
	l.alpha.signalAll(syscall.SIGSTOP, everyProcess)
	l.taken()
	if l.overlap = overlap; overlap {
		until(l.t, orphan+takeoverMargin, "the agent of beta works", func() bool { first, _ := l.span("beta"); return first > 0 })
	}
	term := l.alpha.seat().Head.Term
	if term != 1 || !l.alpha.seat().Holds {
		l.t.Errorf("alpha knows about term %d before it goes on", term)
	}
	goesOn := now(l.t)
	l.alpha.signalAll(syscall.SIGCONT, everyProcess)
	until(l.t, takeoverMargin, "the agent of alpha is dead", func() bool { return !l.alpha.works() })
	_, last := l.span("alpha")
	l.t.Logf("the agent of alpha lived %v after its processes went on", max(0, last-goesOn))
	l.alpha.cron()
}

// cutOff cuts alpha off from the servers. Its agent is dead before the lease ends.
func (l *leaseTrial) cutOff() {
	l.alpha.wire.setCut(true)
	l.taken()
	end := l.connectAgain()
	if _, last := l.span("alpha"); last >= end {
		l.t.Errorf("the agent of alpha lived until %v, and the lease ended at %v", last, end)
	}
}

// cutOffWithoutRunner stops the runner of the turn too, so that a poll of cron must kill the agent.
// It may come a little after the end of the lease. The turn of the other host waits for that.
func (l *leaseTrial) cutOffWithoutRunner() {
	l.alpha.wire.setCut(true)
	runner := l.alpha.runner()
	if runner == 0 {
		l.t.Fatal("the agent has no runner")
	}
	if err := syscall.Kill(runner, syscall.SIGSTOP); err != nil {
		l.t.Fatal(err)
	}
	l.taken()
	until(l.t, takeoverMargin, "the agent of alpha is dead", func() bool { return !l.alpha.works() })
	if err := syscall.Kill(runner, syscall.SIGCONT); err != nil {
		l.t.Error(err)
	}
	l.connectAgain()
}

// connectAgain ends the cut, and returns when the lease of alpha ended.
func (l *leaseTrial) connectAgain() (end time.Duration) {
	l.t.Helper()
	_, last := l.span("alpha")
	if end = l.alpha.seat().End; end == 0 {
		l.t.Error("alpha does not know the end of its lease")
	}
	l.t.Logf("the agent of alpha died %v before the end of the lease", end-last)
	l.alpha.wire.setCut(false)
	return end
}

func everyProcess(string) bool { return true }

// works reports whether an agent lives on the host.
func (h *host) works() bool {
	for _, p := range h.processes() {
		if strings.Contains(p.cmdline, "agent.sh") {
			return true
		}
	}
	return false
}
