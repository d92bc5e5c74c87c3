package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/prompt"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// promptOptions are the flags of prompt.
type promptOptions struct {
	unproven, list   bool
	key, from, layer string
}

func promptCommand(p *program) *cli.Command {
	var o promptOptions
	return &cli.Command{
		Name:  "prompt",
		Usage: "show the agent's prompt for a message",
		Description: `Prints the prompt of the next message, or of an example if no message is
pending. A prompt consists of layers. Each layer is a template: a file of that
name with .tmpl in the folder of [turn] prompts replaces the built-in one. A
broken file is not used; a warning here and in the log reports it.

You and each other agent have separate conversations. With --from it prints the
prompt of an example message from that agent, in its conversation.

Examples:
  agentstateloop prompt --layer rules
  agentstateloop prompt --from dorlange3120`,
		Flags: []cli.Flag{
			textFlag(&o.key, "key", "`KEY`: key or number of a message, even an old one"),
			textFlag(&o.from, "from", "example from the agent `HANDLE`, proved by its token"),
			switchFlag(&o.unproven, "unproven", "with --from, an example that no token proves"),
			textFlag(&o.layer, "layer", "print only the layer `NAME`"),
			switchFlag(&o.list, "list", "list the layers"),
		},
		Action:      p.action(0, 0, o.run),
		Subcommands: []*cli.Command{promptRunCommand(p)},
	}
}

func (o *promptOptions) run(c *call) error {
	if c.given(&o.layer) != "" && !slices.Contains(prompt.Names(), o.layer) {
		return terminal.Usagef(terminal.DidYouMean(o.layer, prompt.Names(), "the layers are "+strings.Join(prompt.Names(), ", ")),
			"unknown layer %q", o.layer)
	}
	if o.unproven && c.given(&o.from) == "" {
		return terminal.Usagef("", "--unproven works only with --from")
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	view, err := o.view(c, a)
	if err != nil {
		return err
	}
	if o.layer != "" {
		view.Layers = slices.DeleteFunc(view.Layers, func(l prompt.Layer) bool { return l.Name != o.layer })
	}
	for _, fault := range view.Faults {
		c.out.Warn("%s", fault)
	}
	for _, l := range view.Layers {
		if l.Fault != "" {
			c.out.Warn("the built-in %s is used: %s", l.Name, l.Fault)
		}
	}
	switch {
	case c.json:
		return c.out.JSON(view)
	case o.list:
		c.printLayers(view)
	default:
		c.printPrompt(view, o.layer != "")
	}
	return nil
}

// view renders the prompt for the flags.
func (o *promptOptions) view(c *call, a *cycle.Agent) (cycle.PromptView, error) {
	if c.given(&o.from) == "" {
		return a.Prompt(o.key)
	}
	if c.given(&o.key) != "" {
		return cycle.PromptView{}, terminal.Usagef("", "--from shows an example: --key does not work with it")
	}
	handle := strings.TrimPrefix(o.from, "@")
	if !state.ValidHandle(handle) {
		return cycle.PromptView{}, terminal.Usagef(state.HandleRule, "%q is not a valid handle", o.from)
	}
	proof := state.ByToken
	if o.unproven {
		proof = state.ByNone
	}
	return a.PromptFrom(handle, proof)
}

// printLayers prints a line for each layer.
func (c *call) printLayers(view cycle.PromptView) {
	for _, l := range view.Layers {
		told := "told"
		if !l.Included {
			told = "-"
		}
		c.out.Printf("%-9s %-8s %-5s %6d bytes  %s\n", l.Name, l.Part, told, len(l.Text), plain.Line(l.From))
	}
}

// printPrompt prints the layers that the agent's prompt contains, or all layers of view.
func (c *call) printPrompt(view cycle.PromptView, all bool) {
	var texts []string
	for _, l := range view.Layers {
		if (l.Included || all) && l.Text != "" {
			texts = append(texts, terminal.Printable(l.Text))
		}
	}
	if len(texts) > 0 {
		fmt.Fprintln(c.out.Stdout, strings.Join(texts, "\n\n"))
	}
}

func promptRunCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a [[prompt]] of agent.toml now",
		ArgsUsage: "NAME",
		Description: `Runs a turn with the text of the prompt, as at one of its times: with the same
rights, and with the answer in a mail. Does not run the prompt's if program, and
does not change its next time. Prints the key of the message, for inbox show,
and does not wait for the answer.

Example:
  agentstateloop prompt run morning`,
		Action: p.agentAction(1, 1, runPrompt),
	}
}

// promptRunOutput is the JSON output of prompt run.
type promptRunOutput struct {
	Key  string `json:"key"`
	Name string `json:"name"`
}

func runPrompt(c *call, a *cycle.Agent) error {
	v := promptRunOutput{Name: c.arg(0)}
	var err error
	if v.Key, err = a.RunPrompt(c.ctx, v.Name); errors.Is(err, cycle.ErrNoPrompt) {
		var known []string
		for _, prompt := range a.ClockPrompts {
			known = append(known, prompt.Name)
		}
		return terminal.WithHint(err, terminal.DidYouMean(v.Name, known, "`"+name+" status` lists the prompts"))
	}
	if err != nil {
		return err
	}
	c.detach(a)
	return c.print(v, "%s\n", v.Key)
}
