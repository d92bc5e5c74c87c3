package cycle

import (
	"cmp"
	"fmt"
	"os"
	"path"

	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
)

// DefaultRecall is how many bytes of the past are put before the agent, unless
// Agent.Recall says otherwise.
const DefaultRecall = 32 << 10

// How much is looked at to find them: the cost of a turn grows with what it is
// told, never with the history (DESIGN 13, promise 8).
const (
	recallPart  = 4 << 10  // bytes told of one message or answer
	recallPer   = 128      // one exchange is looked at for so many bytes that may be told, at most
	recallTimes = 4        // and so many times the bytes that may be told
	recallRead  = 16 << 10 // bytes of history read for each exchange, at most
)

// recalled is what a prompt tells of the past.
type recalled struct {
	summary string // of what was compacted
	text    string // exchanges since, oldest first
}

// past holds the exchanges that one recall has read for the next one of the same
// runner: a backlog is not to read them again with each message.
type past struct{ exchanges []exchange } // newest first

// exchange is one message with its answer.
type exchange struct {
	line state.Line // its task line
	text string
}

// recall rebuilds the conversation from the history: what was said to the agent
// and what it answered, since the last reset. The state keeps nothing of it
// (DESIGN 4). A summary stands for what was compacted. The newest exchanges fill half of the room, those that share
// most words with the question the rest.
func (a *Agent) recall(s state.State, p *past, question ...string) (recalled, error) {
	room := cmp.Or(a.Recall, DefaultRecall)
	summary := a.summaryText(s)
	if summary == "" {
		s.Compacted = state.Summary{}
	}
	if err := a.readExchanges(s, p, room); err != nil {
		return recalled{}, fmt.Errorf("read history: %w", err)
	}
	var texts []string
	for _, e := range p.exchanges {
		texts = append(texts, e.text)
	}
	return recalled{summary: summary, text: prompt.Recall(texts, room, question...)}, nil
}

// readExchanges brings p up to date, reading back to what it holds already, and drops
// what is too old to be looked at.
func (a *Agent) readExchanges(s state.State, p *past, room int) error {
	most := max(1, room/recallPer)
	known := p.exchanges
	p.exchanges = nil
	read := 0
	add := func(e exchange) (more bool) {
		p.exchanges = append(p.exchanges, e)
		read += len(e.text)
		return len(p.exchanges) < most && read < recallTimes*room
	}
	for l, err := range a.Store.Newest(int64(most)*recallRead, state.LineTask, state.LineReset) {
		switch {
		case err != nil:
			return err
		case l.Kind == state.LineReset:
			return nil
		case s.Compacted.Through > 0 && l.Epoch <= s.Compacted.Through:
			return nil
		case !ofMemory(s, l):
			continue
		case len(known) > 0 && known[0].line.Serial == l.Serial && known[0].line.N == l.N:
			for _, e := range known {
				if e.line.Epoch <= s.Compacted.Through || !ofMemory(s, e.line) || !add(e) {
					break
				}
			}
			return nil
		}
		if !add(exchange{line: l, text: a.exchange(l, min(recallPart, room/8))}) {
			return nil
		}
	}
	return nil
}

// ofMemory says whether a history line is a turn that the agent may be told of:
// one that began before the last reset answered out of the old memory.
func ofMemory(s state.State, l state.Line) bool {
	return l.Kind == state.LineTask && l.Row != nil && l.Epoch > s.Reset.Epoch
}

// exchange is one message with its answer, each cut to most bytes. A payload
// that was pruned leaves the fact that there was one.
func (a *Agent) exchange(task state.Line, most int) string {
	msg := *task.Row
	said := "(no longer kept)"
	if w, err := a.load(state.Head{}, msg); err == nil {
		said = w.text
	}
	answered := "(no longer kept)"
	if text, err := os.ReadFile(a.Store.Path(path.Join(task.OutputBox, task.Deliverable))); err == nil {
		answered = string(text)
	}
	return fmt.Sprintf("[%s] %s (%s):\n%s\n\n[%s] you (%s):\n%s\n",
		msg.Observed.UTC().Format("2006-01-02 15:04"), msg.From, standing(msg), clip(said, most),
		task.At.UTC().Format("2006-01-02 15:04"), task.Outcome, clip(answered, most))
}
