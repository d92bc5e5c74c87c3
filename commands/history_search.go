package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// foundByDefault is how many exchanges a search gives.
const foundByDefault = 5

// searched is what history --search --json prints.
type searched struct {
	Agent string `json:"agent"`
	Query string `json:"query"`
	Found string `json:"found"` // "" if there was nothing
}

// historySearch searches what was said, for the operator and for the agent.
func (p *program) historySearch(c *cli.Context) error {
	for _, flag := range []string{"cost", "by", "follow"} {
		if c.IsSet(flag) {
			return terminal.Usagef("", "--search looks for what was said: --%s has no meaning with it", flag)
		}
	}
	n := foundByDefault
	if c.IsSet("n") {
		n = c.Int("n")
	}
	if n < 1 {
		return terminal.Usagef("see "+name+" history --help", "--search wants -n to be 1 or more")
	}
	search := func(a *cycle.Agent) (string, error) { return a.SearchHistory(c.String("search"), n) }
	if p.loader.Env("AGENTSTATELOOP_TURN") != "" {
		_, in, err := p.inside(c)
		if err != nil {
			return err
		}
		search = func(a *cycle.Agent) (string, error) { return a.SearchInside(in, c.String("search"), n) }
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	found, err := search(a)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(searched{Agent: a.Handle, Query: c.String("search"), Found: found})
	}
	if found == "" {
		p.out.Printf("nothing was found\n")
		return nil
	}
	p.out.Printf("%s\n", terminal.Text(found))
	return nil
}
