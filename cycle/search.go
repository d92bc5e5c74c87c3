package cycle

import (
	"fmt"
	"strings"

	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
)

// The limits of a search.
const (
	searchMost = 20       // exchanges
	searchRead = 64 << 10 // bytes of one message or answer
)

// SearchInside is SearchHistory for the turn that it is called from. It finds only exchanges
// with the principal of that turn, and returns ErrStale if the turn is not the caller's any
// more. It fences each text, as a prompt does.
func (a *Agent) SearchInside(in Inside, query string, n int) (string, error) {
	s, err := in.state(a.core())
	if err != nil {
		return "", fmt.Errorf("search history: %w", err)
	}
	rc, who := a.recaller(), s.TurnPrincipal()
	found, err := rc.search(s, query, n, func(l state.Line) bool { return rc.isAnswerTo(who, l) })
	fences := newFences()
	return join(found, fences.Exchange), err
}

// SearchHistory searches all messages to the agent and its answers since the last reset, in
// every month that is kept. It returns the n exchanges (1 to 20) that share most words with
// query, best first, or "" if no exchange matches. It reads them one after the other and holds
// only the results.
func (a *Agent) SearchHistory(query string, n int) (string, error) {
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	found, err := a.recaller().search(s, query, n, func(state.Line) bool { return true })
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

// search is SearchHistory among the task lines for which accept returns true.
func (rc recaller) search(s state.State, query string, n int, accept func(state.Line) bool) ([]prompt.Exchange, error) {
	n = clampResults(n)
	ranking := prompt.NewRanking(query)
	ranking.Common = true
	if ranking.Empty() {
		return nil, fmt.Errorf("search history for %q: the query has no words", query)
	}
	var lines []state.Line
	for l, err := range rc.store.History(state.LineTask) {
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		if sinceReset(s, l) && accept(l) && ranking.Add(len(lines), rc.searchText(l)) {
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

// clampResults limits the number of exchanges that a search returns.
func clampResults(n int) int { return min(max(1, n), searchMost) }

// searchText returns the text of a turn for a search.
func (rc recaller) searchText(l state.Line) string { return rc.exchange(l, searchRead).Plain() }
