package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state/store"
)

// problems collects the errors of a configuration in the order of discovery.
type problems []error

func (p *problems) add(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

// Wire returns the agent of a configuration, and an error for each invalid part. The agent lacks
// those parts. It is nil without a valid handle.
func (l *Loader) Wire(c *Config) (*cycle.Agent, []error) {
	self, err := l.Executable()
	if err != nil {
		return nil, []error{fmt.Errorf("find this program: %w", err)}
	}
	if err := c.checkHandle(); err != nil {
		return nil, []error{err}
	}
	var errs problems
	mail, err := l.wireMail(c)
	errs.add(err)
	mesh, err := l.Mesh(c)
	errs.add(err)
	schedule, err := l.wireSchedule(c, self)
	errs.add(err)
	turns, err := l.wireTurn(c, self)
	errs.add(err)
	backends, err := l.wireBackends(c, turns, self)
	errs.add(err)
	replies, err := wireReplies(c)
	errs.add(err)
	prompt, err := wirePrompt(c, turns)
	errs.add(err)
	budget, err := wireBudget(c)
	errs.add(err)
	prices, err := wirePrices(c)
	errs.add(err)
	hooks, err := l.wireHooks(c, self)
	errs.add(err)
	monitor, err := l.wireHeartbeat(c)
	errs.add(err)
	kinds, err := c.wireKinds()
	errs.add(err)
	clockPrompts, prompts, err := c.wirePrompts(self)
	errs.add(err)
	policy := wirePolicy(c, mail, mesh, turns, replies, budget)
	if turns != nil {
		policy.Login, policy.Backends = turns.Login(), cycle.BackendNames(turns, backends)
	}
	policy.Hooks, policy.Prompts, policy.PromptSlack = hookPolicies(hooks), prompts, c.promptSlack()
	errs.add(c.checkIntervals())
	errs.add(c.checkAckAfter())
	errs.add(c.oneOf("listen.page", c.File.Listen.Page, cycle.PageAct, cycle.PageRead, cycle.PageOff))
	agent := &store.Store{Dir: c.StateDir().Path, Agent: c.File.Agent.Handle}
	seat, err := l.wireFleet(c, mesh, agent)
	errs.add(err)
	if seat != nil {
		schedule.EveryMinute, policy.Fleet = true, true
	}
	a := &cycle.Agent{
		Handle:       c.File.Agent.Handle,
		Config:       c.Path,
		Heartbeat:    monitor,
		Store:        agent,
		Seat:         seat,
		Policy:       policy,
		Mail:         mail,
		Mesh:         mesh,
		Schedule:     schedule,
		Turn:         turns,
		Backends:     backends,
		Replies:      replies,
		Prices:       prices,
		Prompts:      prompt.folder,
		Recall:       prompt.recall,
		Window:       prompt.window,
		Summary:      prompt.summary,
		Rights:       c.rights(),
		Kinds:        kinds,
		Page:         c.File.Listen.Page,
		Hooks:        hooks,
		ClockPrompts: clockPrompts,
		Secrets:      l.Secrets,
		Keep:         time.Duration(c.File.Agent.Keep),
		Self:         []string{self, "--config", c.Path},
		Now:          l.Now,
		Explain:      l.Explain,
	}
	if seat != nil {
		seat.Evict = a.Evict
	}
	return a, errs
}

// oneOf checks that value is one of choices.
func (c *Config) oneOf(key, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return c.Wrong(key, "%q is not one of: %s", value, strings.Join(choices, ", "))
}
