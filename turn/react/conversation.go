package react

import (
	"encoding/json"
	"strings"
)

// conversation is the state that results from the steps. The loop applies each step when it
// happens; a resumed loop reads the steps and applies them again. So it has the same state as
// the loop before it.
type conversation struct {
	messages []Message
	open     []Call          // calls of the last answer that have no result yet
	started  map[string]bool // open calls that may have run

	calls      int             // answers and summaries of this run
	blanks     int             // consecutive empty answers, up to the last one
	succeeded  map[string]bool // tools that succeeded in this run
	ids        map[string]bool // ids of all calls
	repetition repeatCounter
	repeats    map[string]int // how often each call was made, by id
	ending     Ending         // set by a call of this run

	hasSummary       bool // the messages begin with a summary
	answers          int  // since the summary
	uselessSummaries int  // consecutive summaries of this run that failed or did not help

	size          int   // bytes of the messages
	countedTokens int64 // tokens of the messages at the last answer; 0 if not reported
	bytesSince    int   // bytes added since then
	warned        bool  // of the full window, since the last summary
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
		t.calls, t.blanks, t.uselessSummaries, t.succeeded, t.repetition = 0, 0, 0, map[string]bool{}, repeatCounter{}
		t.ending = Ending{}
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
			t.addAnswer(*s.Answer)
		}
	case StepCall:
		t.started[s.ID] = true
	case StepResult:
		t.addResult(s)
	case StepShorter:
		t.applyShorter(s.Text)
	case StepSummary:
		t.applySummary(s)
	}
}

// applyShorter replaces all messages by a shorter text. Shown files stay.
func (t *conversation) applyShorter(text string) {
	files := t.shownFiles()
	t.messages, t.open = nil, nil
	t.size, t.countedTokens, t.bytesSince = 0, 0, 0
	t.addText(text)
	t.show(files)
}

// applySummary replaces the conversation by a summary. A failed summary was useless. So was a
// summary right after another one, because the window was full again at once.
func (t *conversation) applySummary(s Step) {
	t.calls++
	if s.Failed {
		t.uselessSummaries++
		return
	}
	t.uselessSummaries++
	if !t.hasSummary || t.answers > 1 {
		t.uselessSummaries = 0
	}
	t.messages, t.open = nil, nil
	t.size, t.countedTokens, t.bytesSince, t.warned = 0, 0, 0, false
	t.hasSummary, t.answers = true, 0
	t.addText(s.Text)
}

// addText adds text to the next input of the model.
func (t *conversation) addText(text string) {
	t.grow(len(text))
	last := t.lastInput()
	if last.Text != "" {
		last.Text += "\n\n"
	}
	last.Text += text
}

// show adds files to the next input of the model.
func (t *conversation) show(files []ShownFile) {
	for _, s := range files {
		last := t.lastInput()
		last.Shown = append(last.Shown, s)
		t.grow(s.Tokens * bytesPerToken)
	}
}

// shownFiles returns all files that the model sees.
func (t *conversation) shownFiles() (all []ShownFile) {
	for _, m := range t.messages {
		all = append(all, m.Shown...)
	}
	return all
}

// lastInput returns the last message, or a new one if the last is the model's.
func (t *conversation) lastInput() *Message {
	if n := len(t.messages); n == 0 || t.messages[n-1].Model {
		t.messages = append(t.messages, Message{})
	}
	return &t.messages[len(t.messages)-1]
}

func (t *conversation) grow(n int) { t.size, t.bytesSince = t.size+n, t.bytesSince+n }

func (t *conversation) addAnswer(a Answer) {
	t.calls++
	t.answers++
	if a.empty() {
		t.blanks++
		return // no API accepts an empty message
	}
	t.blanks = 0
	m := Message{Model: true, Text: truncate(a.Text, maxAnswerRepeated), Extras: a.Extras}
	for _, c := range a.Calls {
		c.Name = sanitizeName(c.Name)
		m.Calls = append(m.Calls, c)
		t.ids[c.ID], t.repeats[c.ID] = true, t.repetition.count(c)
	}
	t.messages = append(t.messages, m)
	t.open = a.Calls
	t.grow(a.size())
	if total := a.Usage.Input + a.Usage.CacheRead + a.Usage.CacheWrite + a.Usage.Output; total > 0 {
		t.countedTokens, t.bytesSince = total, 0
	}
}

func (t *conversation) addResult(s Step) {
	for i, c := range t.open {
		if c.ID != s.ID {
			continue
		}
		t.open = append(t.open[:i:i], t.open[i+1:]...)
		if !s.Failed {
			t.succeeded[c.Name] = true
		}
		if s.After != "" {
			t.ending = Ending{After: s.After, Text: s.Text}
		}
		t.lastInput().Results = append(t.lastInput().Results, Result{ID: s.ID, Text: s.Text, Failed: s.Failed})
		t.grow(len(s.Text))
		t.show(s.Shown)
		return
	}
}

// tokens estimates the tokens of the conversation: the API's count, plus an estimate for later
// messages that is rarely too low.
func (t *conversation) tokens(system int) int64 {
	if t.countedTokens == 0 {
		return int64(t.size+system) / bytesPerToken
	}
	return t.countedTokens + int64(t.bytesSince)/bytesPerToken
}

const bytesPerToken = 3

// maxAnswerRepeated bounds, in bytes, the text of an answer with calls that goes back to the
// API. The steps keep the whole text.
const maxAnswerRepeated = 64 << 10

// sanitizeName returns the name of an unknown tool in a form that the APIs accept.
func sanitizeName(name string) string {
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

// repeatCounter detects a model that repeats itself. It counts how often each call was made since
// the last new call.
type repeatCounter struct {
	seen   map[string]bool
	counts map[string]int
}

// count records a call and returns how often it was made.
func (r *repeatCounter) count(c Call) int {
	key := c.Name + "\x00" + canonical(c.Args)
	if !r.seen[key] {
		if r.seen == nil {
			r.seen = map[string]bool{}
		}
		r.seen[key], r.counts = true, map[string]int{}
	}
	r.counts[key]++
	return r.counts[key]
}

// canonical returns equivalent arguments in one form: white space and the order of names do not
// matter in JSON.
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
