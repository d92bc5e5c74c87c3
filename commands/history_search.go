package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

// defaultFound is the default of -n with --search, in exchanges.
const defaultFound = 5

// searchOutput is the JSON output of history --search.
type searchOutput struct {
	Agent string `json:"agent"`
	Query string `json:"query"`
	Found string `json:"found"` // "" without a match
}

// find returns the matches of a search, and the handle of the agent that it searched.
func (h historyCmd) find(c *cli.Context, n int) (handle, found string, err error) {
	if h.loader.Env("AGENTSTATELOOP_TURN") != "" {
		turn, err := h.agents.turn(c)
		if err != nil {
			return "", "", err
		}
		found, err = turn.search(c.Context, c.String("search"), n)
		return turn.handle(), found, err
	}
	a, err := h.agents.load(c)
	if err != nil {
		return "", "", err
	}
	found, err = a.SearchHistory(c.String("search"), n)
	return a.Handle, found, err
}

// foundAtMost returns the maximum number of exchanges of a search.
func foundAtMost(c *cli.Context) int {
	if c.IsSet("n") {
		return c.Int("n")
	}
	return defaultFound
}

// search searches past exchanges, for the operator or for the agent.
func (h historyCmd) search(c *cli.Context) error {
	for _, flag := range []string{"cost", "by", "follow", "all"} {
		if c.IsSet(flag) {
			return terminal.Usagef("", "--search searches what was said: --%s does not work with it", flag)
		}
	}
	n := foundAtMost(c)
	if n < 1 {
		return terminal.Usagef("see "+name+" history --help", "with --search, -n must be 1 or more")
	}
	handle, found, err := h.find(c, n)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return h.out.JSON(searchOutput{Agent: handle, Query: c.String("search"), Found: found})
	}
	if found == "" {
		h.out.Printf("nothing was found\n")
		return nil
	}
	h.out.Printf("%s\n", terminal.Printable(found))
	return nil
}
