package react

import (
	"encoding/json"
	"strings"
)

// conversation holds the sum of the steps, and what the loop must know about it.
// Steps are applied one after the other, while they happen and when they are read
// again. So a resumed loop has the same state as the one before it.
type conversation struct {
	messages []Message
	open     []Call          // of the last answer, without a result yet
	started  map[string]bool // calls of them that may have run

	calls      int             // answers and summaries of this run
	blanks     int             // the last of them that were empty
	succeeded  map[string]bool // tools that succeeded in this run
	ids        map[string]bool // ids of all calls
	repetition repetition
	repeats    map[string]int // how often a call was made, by its id
	ended      Ending         // by a call of this run

	summed           bool // the messages begin with a summary
	answers          int  // since then
	uselessSummaries int  // summaries of this run that failed or did not help, in a row

	size    int   // bytes of the messages
	counted int64 // tokens of the messages at the last answer; 0 if not reported
	since   int   // bytes since then
	warned  bool  // about the window, since the last summary
}

func newConversation(steps []Step) *conversation {
	t := &conversation{started: map[string]bool{}, succeeded: map[string]bool{}, ids: map[string]bool{}, repeats: map[string]int{}}
	for _, s := range steps {
		t.apply(s)
	}
	return t
}

func (t *conversation) apply(s Step) {
	switch s.Kind {
	case StepWake:
		t.calls, t.blanks, t.uselessSummaries, t.succeeded, t.repetition = 0, 0, 0, map[string]bool{}, repetition{}
		t.ended = Ending{}
		t.addText(s.Text)
		t.show(s.Shown)
	case StepNote:
		t.addText(s.Text)
	case StepBlind:
		for i := range t.messages {
			t.messages[i].Shown = nil
		}
		t.addText(s.Text)
	case StepWarning:
		t.warned = true
		t.addText(s.Text)
	case StepAnswer:
		if s.Answer != nil {
			t.answered(*s.Answer)
		}
	case StepCall:
		t.started[s.ID] = true
	case StepResult:
		t.resulted(s)
	case StepShorter:
		t.shortened(s.Text)
	case StepSummary:
		t.summarised(s)
	}
}

// shortened replaces what the model was told by a shorter text. What it is shown stays.
func (t *conversation) shortened(text string) {
	shown := t.shown()
	t.messages, t.open = nil, nil
	t.size, t.counted, t.since = 0, 0, 0
	t.addText(text)
	t.show(shown)
}

// summarised replaces the conversation by a summary. A summary that failed was
// useless. So was one that came right after another, because the window was full
// again at once.
func (t *conversation) summarised(s Step) {
	t.calls++
	if s.Failed {
		t.uselessSummaries++
		return
	}
	t.uselessSummaries++
	if !t.summed || t.answers > 1 {
		t.uselessSummaries = 0
	}
	t.messages, t.open = nil, nil
	t.size, t.counted, t.since, t.warned = 0, 0, 0, false
	t.summed, t.answers = true, 0
	t.addText(s.Text)
}

// addText adds to what the model reads next.
func (t *conversation) addText(text string) {
	t.grow(len(text))
	last := t.lastTold()
	if last.Text != "" {
		last.Text += "\n\n"
	}
	last.Text += text
}

// show adds files to what the model sees next.
func (t *conversation) show(files []Shown) {
	for _, s := range files {
		last := t.lastTold()
		last.Shown = append(last.Shown, s)
		t.grow(s.Tokens * bytesPerToken)
	}
}

// shown returns all files that the model sees.
func (t *conversation) shown() (all []Shown) {
	for _, m := range t.messages {
		all = append(all, m.Shown...)
	}
	return all
}

// lastTold returns the last message if it is not the model's, and else a new one.
func (t *conversation) lastTold() *Message {
	if n := len(t.messages); n == 0 || t.messages[n-1].Model {
		t.messages = append(t.messages, Message{})
	}
	return &t.messages[len(t.messages)-1]
}

func (t *conversation) grow(n int) { t.size, t.since = t.size+n, t.since+n }

func (t *conversation) answered(a Answer) {
	t.calls++
	t.answers++
	if a.empty() {
		t.blanks++
		return // no API accepts an empty message
	}
	t.blanks = 0
	m := Message{Model: true, Text: truncated(a.Text, maxAnswerRepeated), Kept: a.Kept}
	for _, c := range a.Calls {
		c.Name = sendable(c.Name)
		m.Calls = append(m.Calls, c)
		t.ids[c.ID], t.repeats[c.ID] = true, t.repetition.count(c)
	}
	t.messages = append(t.messages, m)
	t.open = a.Calls
	t.grow(a.size())
	if total := a.Usage.Input + a.Usage.CacheRead + a.Usage.CacheWrite + a.Usage.Output; total > 0 {
		t.counted, t.since = total, 0
	}
}

func (t *conversation) resulted(s Step) {
	for i, c := range t.open {
		if c.ID != s.ID {
			continue
		}
		t.open = append(t.open[:i:i], t.open[i+1:]...)
		if !s.Failed {
			t.succeeded[c.Name] = true
		}
		if s.After != "" {
			t.ended = Ending{After: s.After, Text: s.Text}
		}
		t.lastTold().Results = append(t.lastTold().Results, Result{ID: s.ID, Text: s.Text, Failed: s.Failed})
		t.grow(len(s.Text))
		t.show(s.Shown)
		return
	}
}

// tokens estimates how much of the window the conversation takes: what the API
// counted, and for the rest a number that few texts exceed.
func (t *conversation) tokens(system int) int64 {
	if t.counted == 0 {
		return int64(t.size+system) / bytesPerToken
	}
	return t.counted + int64(t.since)/bytesPerToken
}

const bytesPerToken = 3

// maxAnswerRepeated bounds, in bytes, the text of an answer with calls that is sent
// back. The steps keep all of it.
const maxAnswerRepeated = 64 << 10

// sendable returns a name in the form that the APIs accept, for a tool that does not
// exist.
func sendable(name string) string {
	name = strings.Map(func(r rune) rune {
		if nameRune(r) {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "nameless"
	}
	return name[:min(len(name), 64)]
}

// nameRune reports whether an API accepts r in a name or an id.
func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// repetition notices a model that repeats itself. It counts how often each call was
// made since the last call that was new.
type repetition struct {
	ever map[string]bool
	now  map[string]int
}

// count notes a call and returns how often it was made.
func (r *repetition) count(c Call) int {
	key := c.Name + "\x00" + canonical(c.Args)
	if !r.ever[key] {
		if r.ever == nil {
			r.ever = map[string]bool{}
		}
		r.ever[key], r.now = true, map[string]int{}
	}
	r.now[key]++
	return r.now[key]
}

// canonical returns arguments in a form that is the same for all that mean the same:
// white space and the order of names do not matter in JSON.
func canonical(args string) string {
	dec := json.NewDecoder(strings.NewReader(args))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil || dec.More() {
		return strings.Join(strings.Fields(args), " ")
	}
	text, err := json.Marshal(value)
	if err != nil {
		return args
	}
	return string(text)
}
