package simulator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// Outcome is the result of one run.
type Outcome struct {
	Broken *Violation // nil: every promise was kept
	Log    []string   // one line per event
	Counts Counts
	Time   time.Duration // that passed in the world
}

// Play plays a story in a new world below dir. dir must be empty, on a file system
// with flock and hard links. An error means that the simulator itself failed.
func Play(dir string, s Story) (Outcome, error) {
	begin := beginning(s.Seed)
	w, err := newWorld(dir, s, begin)
	if err != nil {
		return Outcome{}, fmt.Errorf("make a world: %w", err)
	}
	defer w.close()
	w.disk.settle(w.stateDir())
	// The first poll sets the baseline of the mailbox. No faults strike it, because the promises
	// begin after it.
	if _, err := w.poll(nil, cycle.PollOptions{}); err != nil {
		w.violate("6", "the first poll failed: %v", err)
	}
	for i, step := range s.Steps {
		if w.over() {
			break
		}
		w.logf("%3d  %s  %s", i, w.clock.machine().Format("Jan 2 15:04:05"), step)
		w.perform(step)
		w.checkAlways()
	}
	if !w.over() {
		w.calm()
	}
	switch {
	case w.over():
	case len(w.record.rollbacks) == 0:
		w.checkAll()
	default:
		w.endRolledBack()
	}
	if w.over() {
		w.logHistory()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return Outcome{Broken: w.broken, Log: w.log, Counts: w.count.read(), Time: w.clock.servers().Sub(begin)}, nil
}

// beginnings are the moments at which stories begin: an ordinary day, nights in
// which clocks change, ends of months, a leap day, the end of a year.
var beginnings = []string{
	"2026-01-05 08:58", "2026-03-29 00:20", "2026-10-25 00:20", "2026-11-30 22:40", "2028-02-29 22:50", "2026-12-31 22:30",
}

func beginning(seed int64) time.Time {
	text := beginnings[int(uint64(seed)%uint64(len(beginnings)))]
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		loc = time.UTC // a machine without time zones
	}
	t, err := time.ParseInLocation("2006-01-02 15:04", text, loc)
	if err != nil {
		panic(err)
	}
	return t
}

// poll runs one poll. It returns no error if the process was killed.
func (w *World) poll(faults []Fault, o cycle.PollOptions) (r cycle.Report, err error) {
	began, switched := w.clock.servers(), len(w.halts())
	if o.ByHand {
		w.record.mu.Lock()
		w.record.byHand = w.clock.machine()
		w.record.mu.Unlock()
	}
	err, killed := w.run("poll", faults, func(ctx context.Context, a *cycle.Agent) (err error) {
		r, err = a.Poll(ctx, o)
		return err
	})
	if err != nil || killed || !w.undisturbed.Load() {
		return r, err
	}
	w.restful.Store(true)
	if r.Skipped == "" && !w.wasRolledBack() {
		w.notePromptPoll(began.Add(w.clock.skewed()))
		w.checkProgress()
		w.checkMeshHalt(r, switched)
		w.checkLines()
		w.checkWaiting(began.Add(w.clock.skewed()), o)
		w.checkSending(r, o, began)
	}
	return r, nil
}

// perform plays one step to its end.
func (w *World) perform(s Step) {
	if err := w.do(s); err != nil {
		w.logf("  = %v", err)
	}
	if w.depth() == 0 {
		w.powerOn()
		w.passOutages()
		w.sweep()
	}
}

func (w *World) do(s Step) error {
	switch s.Do {
	case Wait:
		return w.wait(s)
	case Poll:
		_, err := w.poll(s.Faults, cycle.PollOptions{ByHand: true})
		return err
	case Turns:
		return w.command(s, func(ctx context.Context, a *cycle.Agent) error { _, err := a.Turns(ctx); return err })
	case Tell:
		return w.tell(s, false)
	case Ring:
		return w.command(s, func(ctx context.Context, a *cycle.Agent) error {
			if err := a.Ring("backup", "done"); err != nil {
				return err
			}
			w.record.addNudges(w.nudgesLeft()...) // a nudge of an earlier process that was killed is durable by now, too
			_, err := a.Poll(ctx, cycle.PollOptions{NoTurn: true})
			return err
		})
	case Halt:
		return w.command(s, func(ctx context.Context, a *cycle.Agent) error { _, err := a.Halt(ctx, ""); return err })
	case Go:
		return w.command(s, func(ctx context.Context, a *cycle.Agent) error { _, err := a.Resume(ctx, ""); return err })
	case Stop:
		return w.command(s, func(ctx context.Context, a *cycle.Agent) error { return a.Stop(ctx, "by hand") })
	case Transition:
		return w.command(s, func(ctx context.Context, a *cycle.Agent) error {
			_, err := a.Order(ctx, state.Phase(s.Kind), "", false)
			return err
		})
	case TopUp:
		return w.topUp(s, added)
	case Reset:
		return w.reset(s)
	case Release:
		if s.Kind == restored {
			w.letIn()
			return nil
		}
		return w.release(s)
	case Outbox:
		return w.handleOutbox(s)
	case Mail:
		return w.receiveMail(s)
	case Reply:
		return w.replyToChallenge(s)
	case Message:
		w.postMessage(s)
	case Junk:
		w.postJunk(s)
	case Forge:
		w.forge(s)
	case Return:
		return w.returnMail(s)
	case Report:
		w.answerQuestion(s)
	case Outside:
		return w.reportOutside(s)
	case Answer:
		return w.answerOperator(s)
	case Collect:
		w.collectFor(s.For)
	case Burst:
		return w.burst(s)
	case Nudge:
		if from := ringers[s.Kind]; from != "" {
			w.nudge(from)
			return nil
		}
		name := fmt.Sprintf("nudge-%d-%d", s.N, time.Now().UnixNano())
		if err := w.dropFile(name, "backup done"); err != nil {
			return err
		}
		w.record.addNudges(name) // and no other: a nudge of a process that was killed may not survive a power cut
	case Event:
		return w.says(s)
	case Hook:
		return w.setHook(s)
	case Late:
		return w.actLate(s)
	case Clock:
		w.clock.jump(s.For)
		w.restful.Store(false)
	case Read:
		if s.Kind == "other" {
			return w.answerAsOther(s.N)
		}
		return w.readMail(s.N)
	case Expunge:
		return w.expunge(s.N)
	case Rate:
		w.limit(s.N)
	case Renumber:
		if w.clock.daysOff() {
			return nil
		}
		return w.renumber()
	case Edit:
		return w.crontab.edit(edits[s.Kind])
	case Damage:
		return w.damage(s)
	case Outage:
		return w.startOutage(s)
	case Rollback:
		return w.rollBack(s)
	case MeshHalt:
		w.setMeshHalt(s.Kind == "on")
	default:
		panic("unknown deed " + string(s.Do))
	}
	return nil
}

// command runs the process of a step.
func (w *World) command(s Step, do func(context.Context, *cycle.Agent) error) error {
	err, killed := w.run(string(s.Do), s.Faults, do)
	if killed {
		w.logf("  = killed")
	}
	return err
}

// tell runs the command `tell`, or `tell --mail`.
func (w *World) tell(s Step, byMail bool) error {
	w.record.mu.Lock()
	t := &tellCommand{marker: fmt.Sprintf("T%03d", len(w.record.tells)), byMail: byMail}
	w.record.tells = append(w.record.tells, t)
	w.record.mu.Unlock()
	w.wishInside(s)
	return w.say(s, &t.key, func(ctx context.Context, a *cycle.Agent) (string, error) {
		text := t.marker + " do=" + s.Wish
		if byMail {
			return a.TellEvent(ctx, cycle.EventMessage{From: "you", Text: text, Operator: true})
		}
		return a.Tell(ctx, "you", text)
	})
}

// say plays a command that puts a message into the inbox and then polls. It records the key of the
// message.
func (w *World) say(s Step, key *string, do func(context.Context, *cycle.Agent) (key string, err error)) error {
	return w.command(s, func(ctx context.Context, a *cycle.Agent) error {
		given, err := do(ctx, a)
		if err != nil {
			return err
		}
		w.record.mu.Lock()
		*key = given
		w.record.mu.Unlock()
		_, err = a.Poll(ctx, cycle.PollOptions{})
		return err
	})
}

// edits are the changes that people make to their crontab.
var edits = map[string]func(foreign string, ours []string) string{
	"add":    func(foreign string, ours []string) string { return foreign + "@daily  new\tjob # mine\n" + lines(ours) },
	"drop":   func(foreign string, _ []string) string { return foreign },
	"double": func(foreign string, ours []string) string { return lines(ours) + foreign + lines(ours) },
	"alter": func(foreign string, ours []string) string {
		return foreign + strings.Replace(lines(ours), "*/", "1-59/", 1)
	},
	"disable": func(foreign string, ours []string) string { return "#" + lines(ours) + foreign },
	"unended": func(foreign string, ours []string) string { return lines(ours) + strings.TrimSuffix(foreign, "\n") },
	"dos":     func(foreign string, ours []string) string { return foreign + "5 5 * * * dos\r\n" + lines(ours) },
	"backslash": func(foreign string, ours []string) string {
		return foreign + "6 6 * * * " + escapes + "\n" + lines(ours)
	},
	"other": func(foreign string, ours []string) string {
		return foreign + "* * * * * x # agentstateloop goulard31200\n" + lines(ours)
	},
	"clear": func(string, []string) string { return "" },
}

// escapes is a command that "crontab -l" might show with control characters. A table that contains
// it is not written.
const escapes = `printf "\r\b%\n"`

func lines(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\n") + "\n"
}

// startOutage begins an outage of N processes.
func (w *World) startOutage(s Step) error {
	if mode, ok := strings.CutPrefix(s.Kind, "crontab-"); ok {
		if mode == "fine" {
			mode = ""
		}
		return w.crontab.setMode(mode)
	}
	if s.Kind == "box-full" && w.nats != nil {
		w.nats.fill()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outages[s.Kind] = s.N + 1
	return nil
}

// actLate plays an agent whose turn is over and that does not know it yet. None of
// its commands may have an effect.
func (w *World) actLate(s Step) error {
	w.record.mu.Lock()
	var in cycle.Inside
	if n := len(w.record.prompts); n > 0 {
		p := w.record.prompts[s.N%n]
		in = cycle.Inside{TurnID: p.turn, Epoch: p.epoch}
	}
	w.record.mu.Unlock()
	if in.TurnID == "" || w.working(in) {
		return nil
	}
	if s.Kind == "remember" {
		err := w.remember(in, fmt.Sprintf("too late, %s.%d", in.TurnID, in.Epoch), func(do func(context.Context, *cycle.Agent) error) (error, bool) {
			return w.run(string(s.Do), s.Faults, do)
		})
		if errors.Is(err, cycle.ErrStale) || errors.Is(err, cycle.ErrReset) {
			return nil
		}
		return err
	}
	err := w.command(s, func(ctx context.Context, a *cycle.Agent) error {
		switch s.Kind {
		case "submit":
			return a.Submit(ctx, in, cycle.Submission{Text: "too late"})
		case "send":
			return a.Send(ctx, in, peers[1], "too late")
		case "suspend":
			_, err := a.Suspend(ctx, in, "too late", submitPatience)
			return err
		}
		_, err := a.Ask(ctx, in, cycle.Question{To: peers[1], Text: "too late?", Patience: time.Minute})
		return err
	})
	if errors.Is(err, cycle.ErrStale) {
		w.count.happened("a stale agent was refused")
		return nil
	}
	// Its turn may be suspended or not reaped yet. Then it is still its turn.
	w.record.mu.Lock()
	w.record.lateTaken = true
	w.record.mu.Unlock()
	return err
}

// working reports whether the attempt is under way with a living runner. An orphan
// has no runner: its commands may be late.
func (w *World) working(in cycle.Inside) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.agents, func(a *livingAgent) bool { return a.in == in && !a.orphaned })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
