package statetest

import (
	"strconv"
	"strings"

	"agentstateloop/state"
)

// A transcript with the line "chains" shows the chain of each line, and the edges of every source.
// Other transcripts show only the edges between agents.

// hides reports whether the transcript leaves a line out.
func (st *Story) hides(l state.Line) bool {
	return !st.chains && l.Kind == state.LineEdge && !l.AnswersOperatorQuestion() && l.Source != "" && l.Source != state.Mesh
}

// chain returns the end of a shown line: its chain, numbered from 1 unless it came from another
// agent.
func (st *Story) chain(l state.Line) string {
	if !st.chains || l.Trace == "" {
		return ""
	}
	if _, known := st.names[l.Trace]; !known && strings.HasPrefix(l.Trace, "trace.") {
		st.count["chain"]++
		st.names[l.Trace] = "chain" + strconv.Itoa(st.count["chain"])
	}
	return " [" + l.Trace + "]"
}

// edge returns the ids of an edge, and the outcome of the turn that it reports on.
func edge(l state.Line) []string {
	words := []string{l.Request, l.Response, string(l.Outcome)}
	if l.Request == l.Key {
		words[0] = ""
	}
	if strings.HasPrefix(l.Response, string(l.Outcome)) || l.Source == state.Mesh && l.Outcome == state.Success {
		words[2] = ""
	}
	return words
}
