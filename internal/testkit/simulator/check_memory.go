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
)

// notes holds the texts that the agent's working memories may contain, by the results of each
// `remember` and `reset`. A killed command may have had its effect.
type notes struct {
	of      map[string]*note // by speaker; see speaker
	changes int              // changes begun or ended so far
	resets  []reset
}

// note holds the possible memory of one speaker.
type note struct {
	now    map[string]bool // the texts; "" is an empty memory
	lately map[string]bool // the possible texts since the outermost process began
}

// reset is a `reset` that may have happened.
type reset struct {
	sure          bool
	before, after int // number of attempts when it began, and when it ended
	outer         int // number of the outermost process at that time
}

// The speakers besides the peers. Each peer is a speaker by its handle.
const (
	byOperator = "the operator"
	byStranger = "a stranger"
)

// memoryFiles returns the files of the speakers' memories. The first peer has a token, and
// over NATS both have a key.
func (w *World) memoryFiles() map[string]string {
	second := "unproven-"
	if w.nats != nil {
		second = "peer-"
	}
	return map[string]string{
		byOperator:          "memory.md",
		peers[0]:            "memory.d/peer-" + peers[0] + ".md",
		peers[1]:            "memory.d/" + second + peers[1] + ".md",
		byProgram + webhook: "memory.d/event-" + webhook + ".md",
	}
}

func newNotes(w *World) notes {
	n := notes{of: map[string]*note{}}
	for who := range w.memoryFiles() {
		n.of[who] = &note{now: map[string]bool{"": true}, lately: map[string]bool{"": true}}
	}
	return n
}

// change records a change of a speaker's memory. began is the result of beginChange. sure is set if
// the change has happened. If another change was under way meanwhile, the order of the two is
// unknown.
func (n *notes) change(who, text string, began int, sure bool) {
	of := n.of[who]
	if of == nil {
		return // a message that a person released from quarantine
	}
	if sure && began == n.changes {
		clear(of.now)
	}
	of.now[text], of.lately[text] = true, true
}

// speaker returns the sender of the message with a marker. The caller must hold mu.
func (r *record) speaker(marker string) string {
	if strings.HasPrefix(marker, "E") {
		for _, e := range r.programs {
			if e.marker == marker {
				return byProgram + e.name
			}
		}
	}
	if !strings.HasPrefix(marker, "P") {
		return byOperator
	}
	for _, m := range r.meshMessages {
		if m.marker == marker {
			return m.from
		}
	}
	return byStranger
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
	saw.notes.change(saw.speaker(saw.markerOf(in.TurnID)), text, began, sure)
	saw.notes.changes++
	return err
}

// mayNotRemember returns why an attempt may not remember; "" if it may.
func (w *World) mayNotRemember(in cycle.Inside) string {
	if _, over := w.readHistory().ends[in.TurnID]; over {
		return "is over"
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
	for text := range saw.notes.of[byOperator].now {
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
	for who := range w.memoryFiles() {
		saw.notes.change(who, "", began, sure)
	}
	saw.notes.changes++
	saw.notes.resets = append(saw.notes.resets, reset{sure: sure, before: before, after: len(saw.prompts), outer: saw.outer})
	return err
}

var anyMarker = regexp.MustCompile(`\b[EMPT]\d{3}\b`)

// forgotten reports whether every attempt at a message came before a reset, and the current
// outermost process began after that reset. A turn that was dispatched again after the reset is not
// forgotten, even without an attempt. A reminder outlives a reset, and names its subject: its turn
// counts as an attempt at that message, except to itself, the turn within.
func (r *record) forgotten(marker, within string, h history) bool {
	last, turn := -1, ""
	for i, p := range r.prompts {
		if p.marker == marker || p.marker == "" && p.owner == marker && p.turn != within {
			last, turn = i, p.turn
		}
	}
	over := slices.ContainsFunc(r.notes.resets, func(reset reset) bool {
		return reset.sure && last < reset.before && reset.outer < r.outer
	})
	return last >= 0 && over && !h.dispatchedSinceReset(turn)
}

// checkRecalled checks a prompt: its session and its history must be those of the sender of its
// message, its history must begin after the last reset, and its working memory must be the last
// text that the agent remembered for the sender.
func (r *record) checkRecalled(p prompt, h history) {
	who := r.speaker(p.owner)
	if owner := r.sessions[p.session]; owner != "" && owner != who {
		r.world.violate("conversations", "%s.%d answers %s and continues a session of %s", p.turn, p.epoch, who, owner)
	}
	if of := r.notes.of[who]; of != nil && p.session == "" && !of.lately[tagged(p.text, "memory")] {
		r.world.violate("memory", "the prompt of %s.%d has the memory %q, which is not one of %q", p.turn, p.epoch, tagged(p.text, "memory"), sortedKeys(of.lately))
	}
	conversation := tagged(p.text, "history") + tagged(p.text, "memory")
	for range anyMarker.FindAllString(conversation, -1) {
		r.world.count.happened("a prompt had a conversation")
	}
	r.checkQuoted(p.turn, who, conversation, tagged(p.text, "history"), h)
}

// checkQuoted checks that a turn that answers who is shown no message of another speaker, and among
// earlier messages none from before a reset.
func (r *record) checkQuoted(turn, who, shown, earlier string, h history) {
	for _, marker := range anyMarker.FindAllString(shown, -1) {
		if said := r.speaker(marker); said != who {
			r.world.violate("conversations", "turn %s answers %s and is shown %s of %s:\n%s", turn, who, marker, said, shown)
		}
	}
	for _, marker := range anyMarker.FindAllString(earlier, -1) {
		if r.forgotten(marker, turn, h) {
			r.world.violate("memory", "turn %s is shown %s, which was before a reset:\n%s", turn, marker, earlier)
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

// markerOf returns the marker of the message of a turn that has had an attempt. The
// caller must hold mu.
func (r *record) markerOf(turn string) string {
	for _, p := range r.prompts {
		if p.turn == turn {
			return p.owner
		}
	}
	return ""
}

// search calls search_history for a message that was answered since the last reset,
// in the turn of a message with this marker.
func (a *livingAgent) search(marker string) {
	w := a.world
	saw, h := w.record, w.readHistory()
	saw.mu.Lock()
	who := saw.speaker(marker)
	after := 0
	for _, r := range saw.notes.resets {
		after = max(after, r.after)
	}
	wanted := ""
	for _, p := range saw.prompts[after:] {
		if p.marker != "" && saw.speaker(p.marker) == who && p.outer < saw.outer && h.ends[p.turn].Outcome == state.Success && h.dispatchedSinceReset(p.turn) {
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
		found, err = c.SearchInside(a.in, wanted, 20)
		return err
	})
	if err != nil || killed {
		return
	}
	saw.mu.Lock()
	defer saw.mu.Unlock()
	saw.checkQuoted(a.in.TurnID, who, found, found, h)
	if wanted == "answered" {
		return
	}
	w.count.happened("a search found what was answered")
	if !strings.Contains(found, wanted) {
		w.violate("memory", "a search for %s does not find it:\n%s", wanted, found)
	}
}

// dispatchedSinceReset reports whether a turn was dispatched after the last reset. A turn that was
// dispatched before is forgotten, even if its agent started after the reset.
func (h history) dispatchedSinceReset(turn string) bool {
	since := false
	for _, l := range h.lines {
		if l.Kind == "reset" || l.is("turn", state.WordDispatched) && l.TurnID == turn {
			since = l.Kind == "turn"
		}
	}
	return since
}

// checkMemory checks that each file contains the text that was remembered last, or is empty.
func (w *World) checkMemory(history) {
	for who, file := range w.memoryFiles() {
		data, err := os.ReadFile(filepath.Join(w.stateDir(), file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			w.violate("memory", "%v", err)
		}
		now := w.record.notes.of[who].now
		if text := strings.TrimSpace(string(data)); !now[text] {
			w.violate("memory", "the memory of %s is %q, want one of %q", who, text, sortedKeys(now))
		}
	}
}
