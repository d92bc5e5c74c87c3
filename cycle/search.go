package cycle

import (
	"fmt"
	"strings"

	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
)

// What a search gives back, and looks at.
const (
	searchMost = 20       // exchanges
	searchRead = 64 << 10 // bytes of one message or answer
)

// SearchInside is SearchHistory for the turn that it is called from, which must
// not be one that another agent has caused (ErrPeer): it would be told what the
// operator said.
func (a *Agent) SearchInside(in Inside, query string, n int) (string, error) {
	if err := a.forOperator(in); err != nil {
		return "", fmt.Errorf("search history: %w", err)
	}
	return a.SearchHistory(query, n)
}

// SearchHistory looks through all that was said to the agent and what it
// answered, since the last reset, in every month that is kept, for the words of
// query, and gives the n exchanges (1 to 20) that share most, the best first.
// It reads one after the other and holds no text but those it gives. Without any
// it gives "".
func (a *Agent) SearchHistory(query string, n int) (string, error) {
	n = min(max(1, n), searchMost)
	rank := prompt.NewRanking(query)
	rank.Common = true
	if rank.Empty() {
		return "", fmt.Errorf("search history for %q: there is no word in it", query)
	}
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	var lines []state.Line
	for l, err := range a.Store.History(state.LineTask) {
		if err != nil {
			return "", fmt.Errorf("read history: %w", err)
		}
		if ofMemory(s, l) && rank.Add(len(lines), a.exchange(l, searchRead)) {
			lines = append(lines, l)
		}
	}
	var found []string
	for _, i := range rank.Best() {
		if len(found) == n {
			break
		}
		found = append(found, a.exchange(lines[i], recallPart))
	}
	return strings.Join(found, "\n"), nil
}
