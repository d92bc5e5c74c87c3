package simulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// livingAgent is the agent's program while it runs. It is not a real process, but
// it holds the lock on the file alive like one.
type livingAgent struct {
	world *World
	in    cycle.Inside
	alive *os.File

	orphaned bool // its runner has died; it may learn only later that its turn is over
}

// orphanLives is the real time for which an agent without a runner goes on after a process has
// begun to end it.
const orphanLives = 60 * time.Millisecond

// maxAttempts limits the attempts of one process. A right process makes fewer.
const maxAttempts = 60

// errNoLogin is the error of an agent that is not logged in.
var errNoLogin = &state.CredentialError{Name: "agent:exec", Err: errors.New("not logged in")}

// wish matches the marker and the wish in a message: "M012 do=ask". They are part of the message,
// so every attempt receives them.
var wish = regexp.MustCompile(`\b([EMPT]\d{3}) do=([a-z-]+)`)

// The wishes.
var wishes = []string{
	"answer", "answer", "answer", "answer", "fail", "partial", "timeout", "files", "submit", "submit-die", "ask", "ask", "ask-two",
	"ask-submit", "ask-die", "send", "sleep", "no-login", "stale-session", "trouble", "costly", "costly-ask", "pay", "pay-ask",
	"evening", "remember", "remember", "search", "doze", "remind", "linger",
	"deploy", "deploy", "deploy-wait", "deploy-two", "deploy-early", "deploy-die", "deploy-fail", "deploy-end", "deploy-over",
}

// attempt replaces turn.Config.Run and behaves like it: the agent survives when its
// runner is killed, and a stopped attempt ends as canceled.
func (p *process) attempt(ctx context.Context, at turn.Attempt) (turn.Result, error) {
	w := p.world
	p.exitIfDead(p.point(Main, "agent start"))
	if p.attempts++; p.attempts > maxAttempts {
		w.violate("6", "%s makes attempts without end", p.name)
		p.die()
		runtime.Goexit()
	}
	a, err := w.startAgent(at)
	if err != nil {
		return turn.Result{}, err
	}
	first := w.record.prompted(at)
	w.count.began(&w.count.Attempts)
	r := p.work(ctx, a, at, first)
	if r.Rest != nil && ctx.Err() == nil {
		w.count.happened("an agent lingered after its answer")
		p.lingers(a)
		return r, nil
	}
	r.Rest = nil
	switch v := p.point(Main, "agent end"); {
	case v == lostAll: // the agent ends, and its runner dies before it notices
		a.end()
		p.die()
		runtime.Goexit()
	case p.isDead():
		p.leaveOrphan(a)
	}
	a.end()
	if cause := context.Cause(ctx); cause != nil {
		if !errors.Is(cause, turn.ErrStopped) {
			return turn.Result{}, cause
		}
		w.count.happened("a running turn was stopped")
		return turn.Result{Status: turn.Canceled, Reason: "stopped", Exit: turn.ExitStopped, ExitCode: -1, Text: r.Text}, nil
	}
	return r, nil
}

// leaveOrphan ends the goroutine of a dead runner. Its agent lives on.
func (p *process) leaveOrphan(a *livingAgent) {
	p.world.orphan(a)
	p.world.count.happened("a runner died and left an agent")
	runtime.Goexit()
}

// awaitStop gives the runner time to notice the stop of its turn. The runner checks twice a second.
func (p *process) awaitStop(ctx context.Context, a *livingAgent) {
	s, err := p.agent.Store.Read()
	if err != nil || s.Turn.Stop == "" && s.Turn.Owns(a.in.TurnID, a.in.Epoch) {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(3 * time.Second):
		p.world.violate("6", "a runner did not notice within three seconds that its turn shall end")
	}
}

// exitIfDead ends the goroutine if the process is dead.
func (p *process) exitIfDead(v verdict) {
	if p.diesAt(v) {
		runtime.Goexit()
	}
}

// diesAt reports whether the process is dead, also by this verdict.
func (p *process) diesAt(v verdict) bool {
	if v == lostAll {
		p.die()
	}
	return p.isDead()
}

// startAgent starts an agent. No other agent may be alive.
func (w *World) startAgent(at turn.Attempt) (*livingAgent, error) {
	f, err := os.OpenFile(filepath.Join(at.Dir, "alive"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, turn.ErrHeld
	}
	a := &livingAgent{world: w, in: cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}, alive: f}
	w.mu.Lock()
	others := slices.Clone(w.agents)
	w.agents = append(w.agents, a)
	w.mu.Unlock()
	for _, other := range others {
		w.violate("2", "attempt %s.%d was started while the agent of %s.%d lives", at.TurnID, at.Epoch, other.in.TurnID, other.in.Epoch)
	}
	return a, nil
}

// end ends the agent.
func (a *livingAgent) end() {
	w := a.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agents = slices.DeleteFunc(slices.Clone(w.agents), func(other *livingAgent) bool { return other == a })
	a.alive.Close()
}

// orphan records that the runner of an agent has died.
func (w *World) orphan(a *livingAgent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.orphaned = true
}

// releaseOrphans ends the orphans a while after a process began that should end
// them.
func (w *World) releaseOrphans() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.agents {
		if a.orphaned {
			time.AfterFunc(orphanLives, a.end)
		}
	}
}

// killAgents ends all agents, as a power cut does.
func (w *World) killAgents() {
	w.mu.Lock()
	left := w.agents
	w.mu.Unlock()
	for _, a := range left {
		a.end()
	}
}

// work fulfils the wish of the message. first is false if an earlier attempt received the message
// too.
func (p *process) work(ctx context.Context, a *livingAgent, at turn.Attempt, first bool) turn.Result {
	w := p.world
	marker, do := "", "answer"
	text := newestMessage(string(at.Prompt))
	if m := wish.FindStringSubmatch(text); m != nil {
		marker, do = m[1], m[2]
	}
	v := p.point(Main, "agent work")
	if p.diesAt(v) {
		p.leaveOrphan(a)
	}
	p.awaitStop(ctx, a)
	p.takeTime(ctx, a, marker)
	if v == refused || v == lost {
		return turn.Result{Status: turn.Failed, Reason: "the agent was killed by signal 9", Exit: turn.ExitError, ExitCode: -1}
	}
	if r, out := w.meetOutage(at, do, first, "session-"+at.TurnID); out {
		return r
	}
	answer := turn.Result{Status: turn.Success, Text: fmt.Sprintf("%s answered by %s.%d", marker, at.TurnID, at.Epoch), Exit: turn.ExitClean}
	if ctx.Err() != nil {
		return answer
	}
	if owner, more, ok := selfWishOf(string(at.Prompt)); ok {
		answer = a.workAlone(at, owner, more)
		marker = owner
	}
	answer.Session = a.session(at, marker)
	resumed := strings.Contains(string(at.Prompt), "\n<report ")
	if resumed {
		w.count.happened("a turn was resumed")
	}
	if strings.HasPrefix(do, "query") {
		answer = a.query(at, do, marker, answer)
	}
	if strings.HasPrefix(do, "deploy") {
		answer = a.startOutside(at, do, marker, answer)
	}
	switch do {
	case "fail", "timeout", "partial":
		answer.Status = map[string]turn.Status{"fail": turn.Failed, "timeout": turn.TimedOut, "partial": turn.Partial}[do]
		answer.Reason, answer.Exit, answer.ExitCode = "it exited with 1", turn.ExitError, 1
	case "files":
		if err := os.WriteFile(filepath.Join(at.Dir, "output", "report.txt"), []byte("the report of "+marker), 0o600); err == nil {
			answer.Output = []string{"report.txt"}
		}
	case "submit", "submit-die":
		a.submit(marker)
		if do == "submit-die" {
			answer.Status, answer.Reason, answer.Exit, answer.ExitCode, answer.Text = turn.Failed, "it exited with 3", turn.ExitError, 3, ""
		}
	case "ask", "ask-two", "ask-submit", "ask-die":
		if resumed {
			break
		}
		a.ask(peers[0], marker)
		if do == "ask-two" {
			a.ask(peers[1], marker)
		}
		if do == "ask-submit" {
			a.submit(marker)
		}
		if do == "ask-die" {
			answer.Status, answer.Reason, answer.Exit, answer.ExitCode = turn.Failed, "it exited with 1", turn.ExitError, 1
		}
	case "costly", "costly-ask":
		answer.CostUSD = costly.USD()
		if do == "costly-ask" { // every time, if allowed
			a.ask(peers[0], marker)
		}
	case "pay", "pay-ask":
		a.pay()
		answer.Settled = true
		if do == "pay-ask" {
			a.ask(peers[0], marker)
		}
	case "overnight", "evening":
		answer.CostUSD = costly.USD()
		if now := w.clock.machine(); do == "overnight" || midnight(now).Sub(now) < latest {
			w.sleepOver()
		}
	case "remember":
		w.remember(a.in, fmt.Sprintf("%s noted by %s.%d", marker, at.TurnID, at.Epoch), func(do func(context.Context, *cycle.Agent) error) (error, bool) {
			return a.command("remember", do)
		})
	case "search":
		a.search(marker)
	case "linger":
		answer.Exit = turn.ExitIdle
		last := answer
		answer.Rest = func() turn.Result { p.rest(ctx, a, marker); return last }
	case "send":
		a.command("send", func(ctx context.Context, c *cycle.Agent) error {
			return c.Send(ctx, a.in, peers[1], "for your information: "+marker)
		})
	case "doze", "remind", "remind-late":
		a.plan(do, marker, int(at.Epoch%3))
	case "sleep":
		a.command("sleep", func(ctx context.Context, c *cycle.Agent) error { return c.Sleep(ctx, a.in, time.Hour, "") })
	case "no-login":
		if first {
			return turn.Result{Status: turn.Failed, Reason: "not logged in", Exit: turn.ExitError, ExitCode: 1, Credential: errNoLogin}
		}
	case "dead-session":
		if at.Session != "" {
			w.count.happened("a session could not go on")
			return turn.Result{Status: turn.Failed, Reason: tooLong, Exit: turn.ExitError, ExitCode: 1, SessionFailed: true}
		}
	case "stale-session":
		if first {
			return turn.Result{Status: turn.Failed, Reason: "no such session", Exit: turn.ExitError, ExitCode: 1, SessionFailed: true}
		}
	case "trouble":
		// Put a file in the place of the folder for the deliverable.
		os.RemoveAll(filepath.Join(at.Dir, "output"))
		os.WriteFile(filepath.Join(at.Dir, "output"), nil, 0o600)
	}
	return answer
}

// session returns the session that an attempt leaves: the one that it continues, or a new one in
// one of three attempts. The other attempts leave no session, so that some prompts hold the whole
// conversation.
func (a *livingAgent) session(at turn.Attempt, marker string) string {
	if at.Session != "" || at.Epoch%3 != 0 {
		return at.Session
	}
	saw := a.world.record
	saw.mu.Lock()
	defer saw.mu.Unlock()
	id := "session-" + at.TurnID
	saw.sessions[id] = saw.speaker(marker)
	return id
}

// command runs a command that the agent calls in its turn, as a separate process.
func (a *livingAgent) command(name string, do func(context.Context, *cycle.Agent) error) (err error, killed bool) {
	var faults []Fault
	a.world.mu.Lock()
	if n := len(a.world.inside); n > 0 { // these faults strike the next command
		faults, a.world.inside = a.world.inside, nil
	}
	a.world.mu.Unlock()
	err, killed = a.world.run(name, faults, do)
	if err != nil {
		a.world.logf("  %s in turn %s.%d: %v", name, a.in.TurnID, a.in.Epoch, err)
	}
	return err, killed
}

func (a *livingAgent) submit(marker string) {
	err, _ := a.command("submit", func(ctx context.Context, c *cycle.Agent) error {
		return c.Submit(ctx, a.in, cycle.Submission{Text: marker + " submitted", Fields: results(marker)})
	})
	if err == nil {
		a.world.count.happened("a deliverable was submitted")
	}
}

func (a *livingAgent) ask(peer, marker string) {
	err, _ := a.command("ask", func(ctx context.Context, c *cycle.Agent) error {
		_, err := c.Ask(ctx, a.in, cycle.Question{To: peer, Text: "about " + marker + "?", Fields: wanted, Patience: 10 * time.Minute})
		return err
	})
	if err == nil {
		a.world.count.happened("a question was asked")
	}
}

// lingers notes that the agent has answered and lives. If its runner dies, it is an
// orphan.
func (p *process) lingers(a *livingAgent) {
	p.mu.Lock()
	p.lingering = a
	gone := p.dead
	p.mu.Unlock()
	if gone {
		p.leaveOrphan(a)
	}
}

// rest is the Rest of an agent that lingers: it submits something, which comes too
// late, and ends.
func (p *process) rest(ctx context.Context, a *livingAgent, marker string) {
	if s, err := p.agent.Store.Read(); err == nil && ctx.Err() == nil && s.Turn.LingersAt(a.in.TurnID, a.in.Epoch) {
		a.submit(marker + " too late")
	}
	if p.diesAt(p.point(Main, "agent lingers")) {
		p.world.count.happened("a runner died and left an agent that had answered")
		runtime.Goexit()
	}
	p.mu.Lock()
	p.lingering = nil
	p.mu.Unlock()
	a.end()
}
