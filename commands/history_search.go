package commands

import (
	"fmt"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// defaultResults is the default of -n with --search, in exchanges.
const defaultResults = 5

// searchOutput is the JSON output of history --search.
type searchOutput struct {
	Agent string `json:"agent"`
	Query string `json:"query"`
	Found string `json:"found"` // "" without a match
}

// find returns the matches of a search, and the handle of the agent that it searched.
func (o *historyOptions) find(c *call, n int) (handle, found string, err error) {
	if c.insideTurn() {
		turn, err := c.turn()
		if err != nil {
			return "", "", err
		}
		found, err = turn.search(c.ctx, o.search, n)
		return turn.handle(), found, err
	}
	a, err := c.load()
	if err != nil {
		return "", "", err
	}
	found, err = a.SearchHistory(o.search, n)
	return a.Handle, found, err
}

// maxResults returns the maximum number of exchanges of a search.
func (o *historyOptions) maxResults(c *call) int {
	if c.given(&o.n) != "" {
		return o.n
	}
	return defaultResults
}

// printResults searches past exchanges, for the operator or for the agent.
func (o *historyOptions) printResults(c *call) error {
	if flag := c.given(&o.cost, &o.by, &o.follow, &o.all); flag != "" {
		return terminal.Usagef("", "--search searches messages and answers: --%s does not work with it", flag)
	}
	n := o.maxResults(c)
	if n < 1 {
		return terminal.Usagef("see "+name+" history --help", "with --search, -n must be 1 or more")
	}
	handle, found, err := o.find(c, n)
	if err != nil {
		return err
	}
	text := terminal.Printable(found)
	if found == "" {
		text = "no messages found"
	}
	return c.print(searchOutput{Agent: handle, Query: o.search, Found: found}, "%s\n", text)
}

// printChain shows the lines of one chain, in the order of the history.
func (o *historyOptions) printChain(c *call) error {
	if flag := c.given(&o.cost, &o.by, &o.follow, &o.search, &o.verify); flag != "" {
		return terminal.Usagef("", "--trace shows one chain: --%s does not work with it", flag)
	}
	if o.trace == "" {
		return terminal.Usagef("`"+name+" status --json` and `"+name+" inbox show` show them", "--trace needs the id of a chain")
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	lines, err := findChain(a.Store, o.trace)
	if err != nil {
		return err
	}
	most := 0
	if c.given(&o.n) != "" {
		most = o.n
	}
	shows := o.printerFor(c, a)
	var all []linePrinter
	for _, l := range lines {
		all = newest(all, shows(l), most)
	}
	return printAll(all, most)
}

// findChain returns the lines of the chain with this id. A prefix of the id is enough if it is
// unique.
func findChain(st *store.Store, id string) ([]state.Line, error) {
	chain, err := findTrace(st, id)
	if err != nil {
		return nil, err
	}
	var lines []state.Line
	for l, err := range st.History() {
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		if l.IsOf(chain) {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// findTrace returns the id of the only chain that is named id or begins with it. The common
// prefix of our own ids may be omitted.
func findTrace(st *store.Store, id string) (string, error) {
	var found []string
	for l, err := range st.History() {
		if err != nil {
			return "", fmt.Errorf("read history: %w", err)
		}
		if l.Trace == id {
			return id, nil
		}
		begins := strings.HasPrefix(l.Trace, id) || strings.HasPrefix(l.Trace, "trace."+id)
		if l.Trace != "" && begins && len(found) < 2 && !slices.Contains(found, l.Trace) {
			found = append(found, l.Trace)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 2:
		return "", terminal.WithHint(fmt.Errorf("%s is ambiguous: it matches %s and %s", plain.Line(id), found[0], found[1]), "use a longer prefix")
	}
	return "", coded(codeNotFound, terminal.WithHint(fmt.Errorf("chain not found: %s", plain.Line(id)),
		"`"+name+" inbox show KEY` and `"+name+" status --json` show the chain of a message; entries of older versions have none"))
}
