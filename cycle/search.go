package cycle

import (
	"fmt"
	"strings"

	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
)

// What a search returns, and reads.
const (
	searchMost = 20       // exchanges
	searchRead = 64 << 10 // bytes of one message or answer
)

// SearchInside is SearchHistory for the turn that it is called from. It returns
// ErrPeer if another agent has caused that turn: the operator's words are not for
// that agent.
func (a *Agent) SearchInside(in Inside, query string, n int) (string, error) {
	if err := operatorOnly(a.Store, in); err != nil {
		return "", fmt.Errorf("search history: %w", err)
	}
	return a.SearchHistory(query, n)
}

// SearchHistory searches what was said to the agent and what it answered since
// the last reset, in every month that is kept. It returns the n exchanges (1 to
// 20) that share most words with query, best first, or "" if none does. It reads
// them one after the other and holds only those that it returns.
func (a *Agent) SearchHistory(query string, n int) (string, error) {
	n = min(max(1, n), searchMost)
	ranking := prompt.NewRanking(query)
	ranking.Common = true
	if ranking.Empty() {
		return "", fmt.Errorf("search history for %q: the query has no word", query)
	}
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	recaller := a.recaller()
	var lines []state.Line
	for l, err := range a.Store.History(state.LineTask) {
		if err != nil {
			return "", fmt.Errorf("read history: %w", err)
		}
		if ofMemory(s, l) && ranking.Add(len(lines), recaller.exchange(l, searchRead)) {
			lines = append(lines, l)
		}
	}
	var found []string
	for _, i := range ranking.Best() {
		if len(found) == n {
			break
		}
		found = append(found, recaller.exchange(lines[i], recallPart))
	}
	return strings.Join(found, "\n"), nil
}
