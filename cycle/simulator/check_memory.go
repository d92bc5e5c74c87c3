package simulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// notes holds what the agent's working memory may contain, judging by the results of
// each `remember` and `reset`. A command that was killed may have had its effect.
type notes struct {
	now     map[string]bool // the texts that the memory may contain; "" is an empty one
	lately  map[string]bool // the texts that it may have contained since the outermost process began
	changes int             // changes begun or ended so far
	resets  []reset
}

// reset is a `reset` that may have happened.
type reset struct {
	sure          bool
	before, after int // number of attempts when it began, and when it ended
	outer         int // number of the outermost process at that time
}

func newNotes() notes {
	return notes{now: map[string]bool{"": true}, lately: map[string]bool{"": true}}
}

// settle records the begin of an outermost process. From now on no other process
// can prompt with an older memory.
func (n *notes) settle() {
	n.lately = map[string]bool{}
	for text := range n.now {
		n.lately[text] = true
	}
}

// change records a change of the memory. began is the result of beginChange. sure
// says that the change has happened. If another change was under way meanwhile, the
// order of the two is unknown.
func (n *notes) change(text string, began int, sure bool) {
	if sure && began == n.changes {
		clear(n.now)
	}
	n.changes++
	n.now[text], n.lately[text] = true, true
}

// beginChange must be called before a command that may change the memory.
func (r *record) beginChange() (began int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes.changes++
	return r.notes.changes
}

// remember runs `remember` for an attempt that may be over.
func (w *World) remember(in cycle.Inside, text string, run func(func(context.Context, *cycle.Agent) error) (error, bool)) error {
	saw := w.record
	barred := w.mayNotRemember(in)
	began := saw.beginChange()
	err, killed := run(func(ctx context.Context, c *cycle.Agent) error { return c.Remember(ctx, in, text) })
	saw.mu.Lock()
	defer saw.mu.Unlock()
	if errors.Is(err, cycle.ErrReset) {
		w.count.happened("a turn that began before a reset remembered nothing")
	}
	if errors.Is(err, cycle.ErrStale) || errors.Is(err, cycle.ErrReset) {
		return err
	}
	sure := err == nil && !killed
	if sure && barred != "" {
		w.violate("memory", "turn %s.%d remembered although it %s", in.TurnID, in.Epoch, barred)
	}
	if sure {
		w.count.happened("something was remembered")
	}
	saw.notes.change(text, began, sure)
	return err
}

// mayNotRemember returns why an attempt may not remember; "" if it may.
func (w *World) mayNotRemember(in cycle.Inside) string {
	h, err := w.readHistory()
	if err != nil {
		return ""
	}
	for _, tasks := range h.tasks {
		for _, task := range tasks {
			if task.TurnID == in.TurnID {
				return "is over"
			}
		}
	}
	saw := w.record
	saw.mu.Lock()
	defer saw.mu.Unlock()
	mine := len(saw.prompts)
	for i, p := range saw.prompts {
		switch {
		case p.turn == in.TurnID && p.epoch > in.Epoch:
			return "has another attempt"
		case p.turn == in.TurnID && p.epoch == in.Epoch:
			mine = i
		}
	}
	for _, r := range saw.notes.resets {
		if r.sure && mine < r.before {
			return "began before a reset"
		}
	}
	return ""
}

// reset runs the command `reset`.
func (w *World) reset(s Step) error {
	saw := w.record
	began := saw.beginChange()
	saw.mu.Lock()
	before := len(saw.prompts)
	var held []string
	for text := range saw.notes.now {
		held = append(held, text)
	}
	saw.mu.Unlock()
	err, killed := w.run("reset", s.Faults, func(ctx context.Context, a *cycle.Agent) error {
		return a.Reset(ctx, fmt.Sprintf("begin again, %d", s.N), "you")
	})
	saw.mu.Lock()
	defer saw.mu.Unlock()
	sure := err == nil && !killed
	if sure && began == saw.notes.changes && len(held) == 1 && held[0] != "" {
		w.count.happened("a reset set a memory aside")
		aside, err := os.ReadFile(filepath.Join(w.stateDir(), "memory.md.prev"))
		if strings.TrimSpace(string(aside)) != held[0] {
			w.violate("memory", "reset set %q aside, but the memory was %q: %v", aside, held[0], err)
		}
	}
	saw.notes.change("", began, sure)
	saw.notes.resets = append(saw.notes.resets, reset{sure: sure, before: before, after: len(saw.prompts), outer: saw.outer})
	return err
}

var anyMarker = regexp.MustCompile(`\b[MPT]\d{3}\b`)

// forgotten reports whether every attempt at a message came before a reset, and the
// current outermost process began after that reset. A turn that was dispatched
// again after the reset is not forgotten, even without an attempt.
func (r *record) forgotten(marker string, h history) bool {
	last, turn := -1, ""
	for i, p := range r.prompts {
		if p.marker == marker {
			last, turn = i, p.turn
		}
	}
	over := slices.ContainsFunc(r.notes.resets, func(reset reset) bool {
		return reset.sure && last < reset.before && reset.outer < r.outer
	})
	return last >= 0 && over && !h.dispatchedSinceReset(turn)
}

// checkRecalled checks a prompt: its history must not go back beyond the last reset,
// and its working memory must be the text that was remembered last.
func (r *record) checkRecalled(p prompt, h history) {
	if memory := tagged(p.text, "memory"); !r.notes.lately[memory] {
		r.world.violate("memory", "the prompt of %s.%d has the memory %q, which is not one of %q", p.turn, p.epoch, memory, sortedKeys(r.notes.lately))
	}
	for _, marker := range anyMarker.FindAllString(tagged(p.text, "history"), -1) {
		if r.forgotten(marker, h) {
			r.world.violate("memory", "the prompt of %s.%d has %s, which was before a reset:\n%s", p.turn, p.epoch, marker, p.text)
		}
	}
}

// tagged returns the text between a tag and its end in a prompt, or "". Both hold the
// boundary of the prompt.
func tagged(prompt, tag string) string {
	_, rest, _ := strings.Cut(prompt, "\n<"+tag+" ")
	boundary, rest, _ := strings.Cut(rest, ">\n")
	text, _, _ := strings.Cut(rest, "\n</"+tag+" "+boundary+">")
	return text
}

// search calls search_history for a message that was answered since the last reset.
func (a *livingAgent) search() {
	w := a.world
	h, err := w.readHistory()
	if err != nil {
		return
	}
	answered := map[string]bool{}
	for _, tasks := range h.tasks {
		for _, task := range tasks {
			answered[task.TurnID] = task.Status == string(state.Success)
		}
	}
	saw := w.record
	saw.mu.Lock()
	after := 0
	for _, r := range saw.notes.resets {
		after = max(after, r.after)
	}
	wanted := ""
	for _, p := range saw.prompts[after:] {
		if p.marker != "" && p.outer < saw.outer && answered[p.turn] && h.dispatchedSinceReset(p.turn) {
			wanted = p.marker
			break
		}
	}
	saw.mu.Unlock()
	if wanted == "" {
		wanted = "answered"
	}
	found := ""
	err, killed := a.command("search", func(_ context.Context, c *cycle.Agent) (err error) {
		found, err = c.SearchHistory(wanted, 20)
		return err
	})
	if err != nil || killed {
		return
	}
	saw.mu.Lock()
	defer saw.mu.Unlock()
	for _, marker := range anyMarker.FindAllString(found, -1) {
		if saw.forgotten(marker, h) {
			w.violate("memory", "a search for %s finds %s, which was before a reset:\n%s", wanted, marker, found)
		}
	}
	if wanted == "answered" {
		return
	}
	w.count.happened("a search found what was answered")
	if !strings.Contains(found, wanted) {
		w.violate("memory", "a search for %s does not find it:\n%s", wanted, found)
	}
}

// dispatchedSinceReset reports whether a turn was dispatched after the last reset.
// A turn whose agent only started after it belongs to what was forgotten.
func (h history) dispatchedSinceReset(turn string) bool {
	since := false
	for _, l := range h.lines {
		switch {
		case l.Kind == "reset":
			since = false
		case l.Kind == "turn" && l.What == "dispatched" && l.TurnID == turn:
			since = true
		}
	}
	return since
}

// checkMemory checks that the file contains what was remembered last, or nothing.
func (w *World) checkMemory() {
	data, err := os.ReadFile(filepath.Join(w.stateDir(), store.MemoryFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.violate("memory", "%v", err)
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	if text := strings.TrimSpace(string(data)); !w.record.notes.now[text] {
		w.violate("memory", "the memory is %q, want one of %q", text, sortedKeys(w.record.notes.now))
	}
}
