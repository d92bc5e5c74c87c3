package cycle

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"agentstateloop/state"
)

// How much of the past is put before the agent.
const (
	recallRead  = 4 << 20  // bytes of history looked through
	recallTurns = 20       // exchanges
	recallText  = 32 << 10 // bytes of them, together
	recallPart  = 4 << 10  // bytes of one message or answer
)

// recall rebuilds the conversation from the history, oldest first: what was
// said to the agent and what it answered, since the last reset. The state
// keeps nothing of it (DESIGN 4). Its cost does not depend on the history's
// length.
func (a *Agent) recall(reset state.Reset) (string, error) {
	var exchanges []string
	room := recallText
	for l, err := range a.Store.Newest(recallRead) {
		if err != nil {
			return "", fmt.Errorf("read history: %w", err)
		}
		if l.Kind == state.LineReset || len(exchanges) == recallTurns {
			break
		}
		if l.Kind != state.LineTask || l.Row == nil || l.Epoch <= reset.Epoch {
			continue // a turn that began before the reset answered out of the old memory
		}
		exchange := a.exchange(*l.Row, l)
		if room -= len(exchange); room < 0 {
			break
		}
		exchanges = append(exchanges, exchange)
	}
	slices.Reverse(exchanges)
	return strings.Join(exchanges, "\n"), nil
}

// exchange is one message with its answer. A payload that was pruned leaves the
// fact that there was one.
func (a *Agent) exchange(msg state.Message, task state.Line) string {
	said := "(no longer kept)"
	if w, err := a.load(state.Head{}, msg); err == nil {
		said = w.text
	}
	answered := "(no longer kept)"
	if text, err := os.ReadFile(a.Store.Path(path.Join(task.OutputBox, task.Deliverable))); err == nil {
		answered = string(text)
	}
	return fmt.Sprintf("[%s] %s (%s):\n%s\n\n[%s] you (%s):\n%s\n",
		msg.Observed.UTC().Format("2006-01-02 15:04"), msg.From, standing(msg), clip(said, recallPart),
		task.At.UTC().Format("2006-01-02 15:04"), task.Outcome, clip(answered, recallPart))
}
