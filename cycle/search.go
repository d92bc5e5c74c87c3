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
// that agent. Each text that it returns is fenced, as in a prompt.
func (a *Agent) SearchInside(in Inside, query string, n int) (string, error) {
	if err := operatorOnly(a.Store, in); err != nil {
		return "", fmt.Errorf("search history: %w", err)
	}
	found, err := a.recaller().search(query, n)
	fences := newFences()
	return join(found, fences.Exchange), err
}

// SearchHistory searches what was said to the agent and what it answered since
// the last reset, in every month that is kept. It returns the n exchanges (1 to
// 20) that share most words with query, best first, or "" if none does. It reads
// them one after the other and holds only those that it returns.
func (a *Agent) SearchHistory(query string, n int) (string, error) {
	found, err := a.recaller().search(query, n)
	return join(found, prompt.Exchange.Plain), err
}

// join returns exchanges as text.
func join(found []prompt.Exchange, text func(prompt.Exchange) string) string {
	var texts []string
	for _, e := range found {
		texts = append(texts, text(e))
	}
	return strings.Join(texts, "\n")
}

// search does the work of SearchHistory.
func (rc recaller) search(query string, n int) ([]prompt.Exchange, error) {
	n = min(max(1, n), searchMost)
	ranking := prompt.NewRanking(query)
	ranking.Common = true
	if ranking.Empty() {
		return nil, fmt.Errorf("search history for %q: the query has no word", query)
	}
	s, err := rc.store.Read()
	if err != nil {
		return nil, err
	}
	var lines []state.Line
	for l, err := range rc.store.History(state.LineTask) {
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		if ofMemory(s, l) && ranking.Add(len(lines), rc.exchange(l, searchRead).Plain()) {
			lines = append(lines, l)
		}
	}
	var found []prompt.Exchange
	for _, i := range ranking.Best() {
		if len(found) == n {
			break
		}
		found = append(found, rc.exchange(lines[i], recallPart))
	}
	return found, nil
}
