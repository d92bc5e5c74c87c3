package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// trace shows the lines of one chain, in the order of the history.
func (h historyCmd) trace(c *cli.Context) error {
	for _, flag := range []string{"cost", "by", "follow", "search", "verify"} {
		if c.IsSet(flag) {
			return terminal.Usagef("", "--trace shows one chain: --%s does not work with it", flag)
		}
	}
	id := c.String("trace")
	if id == "" {
		return terminal.Usagef("`"+name+" status --json` and `"+name+" inbox show` name them", "--trace needs the id of a chain")
	}
	a, err := h.agents.load(c)
	if err != nil {
		return err
	}
	lines, err := findChain(a.Store, id)
	if err != nil {
		return err
	}
	most := 0
	if c.IsSet("n") {
		most = c.Int("n")
	}
	shows := h.shows(c, a)
	var all []linePrinter
	for _, l := range lines {
		all = newest(all, shows(l), most)
	}
	return printAll(all, most)
}

// findChain returns the lines of the chain with this id. A prefix of the id is enough if it is
// unique.
func findChain(st *store.Store, id string) ([]state.Line, error) {
	chain, err := wholeTrace(st, id)
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

// wholeTrace returns the id of the only chain that is named id or begins with it. The common
// prefix of our own ids may be omitted.
func wholeTrace(st *store.Store, id string) (string, error) {
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
		return "", terminal.WithHint(fmt.Errorf("more than one chain begins with %s: %s, %s", plain.Line(id), found[0], found[1]), "write more of the id")
	}
	return "", coded(codeNotFound, terminal.WithHint(fmt.Errorf("the history has no chain %s", plain.Line(id)),
		"`"+name+" inbox show KEY` and `"+name+" status --json` name the chain of a message; lines of older versions have none"))
}
