package simulator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/cycle/hook"
	"agentstateloop/state"
)

// Prompts by the clock, and their checks (docs/design.md, "Prompts by the clock").

// ClockPrompt is a [[prompt]] of a story.
type ClockPrompt struct {
	Name, At string
	CatchUp  time.Duration
	Asks     bool // a program is asked first
}

// clockPrompts returns the prompts of the story of a seed; most stories have no prompt.
func clockPrompts(seed int64) (all []ClockPrompt) {
	g := newGenerator(seed, 4)
	if !g.chance(3) {
		return nil
	}
	for i := range 1 + g.IntN(2) {
		all = append(all, ClockPrompt{
			Name:    []string{"first", "second"}[i],
			At:      pickOne(g, "*/20 * * * *", "7 * * * *", "30 2 * * *", "0 9,21 * * *", "15 2 * * *", "@hourly"),
			CatchUp: pickOne(g, 0, time.Hour, 24*time.Hour),
			Asks:    g.chance(3),
		})
	}
	return all
}

// promptText begins the text of a prompt of the clock. The name follows.
const promptText = "do what the clock wants, "

// configurePrompts gives the agent of a process the prompts that are configured now.
func (p *process) configurePrompts(a *cycle.Agent, prompts []ClockPrompt) {
	for _, c := range prompts {
		times, err := cron.ParseTimes(c.At)
		if err != nil {
			panic(err)
		}
		prompted := cycle.ClockPrompt{Name: c.Name, Text: promptText + c.Name, Kind: state.KindAlways}
		if c.Asks {
			prompted.If = &hook.Program{Command: []string{"check"}}
		}
		a.ClockPrompts = append(a.ClockPrompts, prompted)
		a.Policy.Prompts = append(a.Policy.Prompts, state.PromptPolicy{Name: c.Name, At: c.At, CatchUp: c.CatchUp, Asks: c.Asks, Next: times.Next})
	}
	a.AskPrompt = p.askPrompt
}

// askPrompt replaces the program of a prompt.
func (p *process) askPrompt(context.Context, cycle.ClockPrompt) (nothing string, err error) {
	w := p.world
	v := p.point(Main, "prompt ask")
	p.exitIfDead(v)
	w.mu.Lock()
	w.asked++
	n := w.asked
	w.mu.Unlock()
	switch {
	case v != goOn || n%7 == 6:
		w.count.happened("the program of a prompt broke")
		return "", errors.New("its `if` program, check, failed: exit status 3")
	case n%3 == 2:
		w.count.happened("a prompt was not needed")
		return "check says that there is nothing to do", nil
	}
	return "", nil
}

// promptedBy returns the prompt of the clock that a turn is about, or "".
func promptedBy(text string) string {
	_, name, ok := strings.Cut(tagged(text, "message"), promptText)
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(name, "\n")
	return strings.TrimSpace(name)
}

// promptPoll is an undisturbed poll, which must have made the due prompts.
type promptPoll struct {
	at     time.Time
	strike int64 // faults that had struck before
}

// notePromptPoll records an undisturbed poll.
func (w *World) notePromptPoll(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.current.prompts) > 0 && !w.clock.wasWrong() {
		w.promptPolls = append(w.promptPolls, promptPoll{at, w.strikes.Load()})
	}
}

// keyOf returns the key of a prompt at a time, as docs/design.md has it.
func keyOf(name string, at time.Time) string {
	return "prompt:" + name + ":" + at.UTC().Format("2006-01-02T15:04Z")
}

// checkClockPrompts checks that each time of a prompt had at most one message, one turn and one
// ending, and that no time was forgotten.
func (w *World) checkClockPrompts(h history) {
	came := map[string]int{}
	decided := map[string]time.Time{}
	for _, l := range h.lines {
		if !strings.HasPrefix(l.Key, "prompt:") {
			continue
		}
		if decided[l.Key].IsZero() {
			decided[l.Key] = l.At
		}
		if l.Kind == "prompt" && (l.What == state.WordSkipped || l.What == state.WordFailed || l.What == state.WordMissed) {
			came[l.Key]++
			w.count.happened("a prompt was " + string(l.What))
		}
		if l.Kind != "message" || l.What != "" {
			continue
		}
		came[l.Key]++
		w.count.happened("a prompt had its time")
		w.checkOneEnd("prompts", h, l.Key)
		if tasks := h.tasks[l.Key]; len(tasks) == 1 {
			w.checkMailed(h, l.Key, tasks[0])
		}
	}
	for key, n := range came {
		if n > 1 {
			w.violate("prompts", "%d things came of %s", n, key)
		}
	}
	for _, c := range w.story.Prompts {
		w.checkTimes(h, c, decided)
	}
}

// checkTimes checks that each firing of a prompt was at one of its times, and that each time that
// an undisturbed poll has found has a firing.
func (w *World) checkTimes(h history, c ClockPrompt, decided map[string]time.Time) {
	times, err := cron.ParseTimes(c.At)
	if err != nil {
		panic(err)
	}
	zone := w.clock.machine().Location()
	for key := range decided {
		text, mine := strings.CutPrefix(key, "prompt:"+c.Name+":")
		if !mine {
			continue
		}
		at, err := time.Parse("2006-01-02T15:04Z", text)
		if err != nil || !times.Next(at.Add(-time.Second), zone).Equal(at) {
			w.violate("prompts", "%s is not a time of %q in %v", key, c.At, zone)
		}
	}
	var planned time.Time
	for _, l := range h.lines {
		if l.Kind == "prompt" && l.From == c.Name && planned.IsZero() {
			planned = l.At
		}
	}
	if planned.IsZero() {
		return
	}
	for i, poll := range w.promptPolls {
		if w.clock.wasWrong() || h.heldAt(poll.at) || c.Asks && w.mayBeAsked(i) {
			continue
		}
		newest := time.Time{}
		for at := times.Next(poll.at.Add(-25*time.Hour), zone); !at.After(poll.at); at = times.Next(at, zone) {
			newest = at
		}
		if newest.IsZero() || !newest.After(planned) || poll.at.Sub(newest) > c.CatchUp {
			continue
		}
		if at := decided[keyOf(c.Name, newest)]; at.IsZero() || at.After(poll.at.Add(5*time.Second)) {
			w.violate("prompts", "the poll of %v found %s due, and nothing came of it (%v)", poll.at, keyOf(c.Name, newest), at)
		}
		w.count.happened("a poll made what was due by the clock")
	}
}

// mayBeAsked reports whether the program of a prompt may be asked still, at the time of a
// poll, by a process that a fault has struck: its lease holds others back.
func (w *World) mayBeAsked(poll int) bool {
	now := w.promptPolls[poll]
	for _, before := range slices.Backward(w.promptPolls[:poll]) {
		if passed := now.at.Sub(before.at); passed > state.PromptLease || before.strike != now.strike {
			return before.strike != now.strike || passed > time.Hour
		}
	}
	return true
}

// heldAt reports whether prompts may have been held back at a time: under HALT, or because money
// was short.
func (h history) heldAt(t time.Time) bool {
	halted, tier := haltedBy{}, state.TierNormal
	held := func() bool { return halted.any() || tier == state.TierCritical || tier == state.TierDead }
	for _, l := range h.lines {
		if l.Kind != "halt" && l.Kind != "tier" {
			continue
		}
		if l.At.Sub(t).Abs() < 10*time.Second { // before or after
			return true
		}
		if l.At.After(t) {
			break
		}
		if halted.read(l); l.Kind == "tier" {
			tier = state.Tier(l.What)
		}
	}
	return held()
}
