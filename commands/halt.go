package commands

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/act"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// haltOptions are the flags of halt and resume.
type haltOptions struct{ reason string }

func haltCommand(p *program) *cli.Command {
	var o haltOptions
	return &cli.Command{
		Name:  "halt",
		Usage: "stop all turns and mail until resume",
		Description: `Sets HALT: ends the running turn and holds mail back; messages are still
collected. Held mail is sent after resume.

Example:
  agentstateloop halt --reason "it is spending too much"`,
		Flags:  []cli.Flag{reasonFlag(&o.reason)},
		Action: p.agentAction(0, 0, func(c *call, a *cycle.Agent) error { return o.run(c, a, a.Halt) }),
	}
}

func resumeCommand(p *program) *cli.Command {
	var o haltOptions
	return &cli.Command{
		Name:  "resume",
		Usage: "lift a HALT",
		Description: `Lifts a HALT that halt or your mail has set, and sends the held mail. To lift a
HALT of the mesh, use mesh resume.

Example:
  agentstateloop resume`,
		Flags:  []cli.Flag{reasonFlag(&o.reason)},
		Action: p.agentAction(0, 0, func(c *call, a *cycle.Agent) error { return o.run(c, a, a.Resume) }),
	}
}

// haltOutput is the JSON output of halt and resume.
type haltOutput struct {
	Agent  string `json:"agent"`
	Halted bool   `json:"halted"`
}

func (o *haltOptions) run(c *call, a *cycle.Agent, change func(context.Context, string) (state.State, error)) error {
	s, err := change(c.ctx, o.reason)
	if err != nil {
		return err
	}
	c.pollAfter(a)
	if c.json {
		return c.out.JSON(haltOutput{Agent: a.Handle, Halted: s.Halted()})
	}
	c.out.Printf("%s\n", act.Halted(a, s))
	return nil
}

// stopOptions are the flags of stop.
type stopOptions struct{ reason string }

func stopCommand(p *program) *cli.Command {
	var o stopOptions
	return &cli.Command{
		Name:  "stop",
		Usage: "end the running turn and deliver its output so far",
		Description: `Ends the agent's process and delivers its output so far, marked canceled. The
next message then gets its turn; to stop all turns, use halt.

Example:
  agentstateloop stop --reason "wrong repository"`,
		Flags:  []cli.Flag{reasonFlag(&o.reason)},
		Action: p.agentAction(0, 0, o.run),
	}
}

func (o *stopOptions) run(c *call, a *cycle.Agent) error {
	stopping, text, err := act.Stop(c.ctx, a, "", o.reason)
	if err != nil {
		return err
	}
	return c.print(struct {
		Agent    string `json:"agent"`
		Stopping bool   `json:"stopping"`
	}{a.Handle, stopping}, "%s\n", text)
}

// transitionOptions are the flags of transition.
type transitionOptions struct {
	noMail, noPoll bool
	reason         string
}

func transitionCommand(p *program) *cli.Command {
	var o transitionOptions
	return &cli.Command{
		Name:      "transition",
		Usage:     "change the agent's phase: IDLE, PREP or ACTIVE",
		ArgsUsage: "IDLE|PREP|ACTIVE",
		Description: `Changes the phase with all its effects (mails, timers, crontab line), then runs
an ordinary cycle. If the agent is already in that phase, nothing changes.

Example:
  agentstateloop transition IDLE --no-mail`,
		Flags: []cli.Flag{
			reasonFlag(&o.reason),
			switchFlag(&o.noMail, "no-mail", "send no mail about it"),
			switchFlag(&o.noPoll, "no-poll", "run no cycle afterwards"),
		},
		Action: p.action(1, 1, o.run),
	}
}

// transitionOutput is the JSON output of transition.
type transitionOutput struct {
	Agent   string      `json:"agent"`
	Before  state.Phase `json:"before"`
	Phase   state.Phase `json:"phase"`
	Changed bool        `json:"changed"`
}

func (o *transitionOptions) run(c *call) error {
	to, err := state.ParsePhase(c.arg(0))
	if err != nil {
		return terminal.Usagef("", "%v", err)
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	s, err := a.Order(c.ctx, to, o.reason, o.noMail)
	if err != nil {
		return err
	}
	result := transitionOutput{Agent: a.Handle, Before: s.Phase, Phase: s.Phase}
	for _, l := range s.Lines {
		if l.Kind == state.LineTransition {
			result.Changed, result.Before = true, l.Old
		}
	}
	if !o.noPoll {
		c.pollAfter(a)
	}
	if a.Schedule.HasTimer() && !c.insideTurn() && a.Timer(s).Missing() != "" {
		install(c, a) // a poll leaves the timer alone
	}
	text := fmt.Sprintf("%s → %s", result.Before, result.Phase)
	if !result.Changed {
		text = fmt.Sprintf("is already %s; nothing changed", result.Phase)
	}
	return c.print(result, "@%s %s\n", a.Handle, text)
}
