package commands

import (
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

type promptCmd struct {
	agents agents
	out    *terminal.Output
}

func promptCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "prompt",
		Usage: "show the prompt that the agent gets for a message",
		Description: `Prints the prompt of the next message, or of an example if none waits. A prompt
is made of layers. Each layer is a template: a file of that name with .tmpl in
the folder of [turn] prompts replaces the built-in one. A broken file is not
used; a warning here and in the log says so.

The operator and each other agent have a conversation of their own. With --from
it prints the prompt of an example from that agent, with what that one has said.

Example:
  agentstateloop prompt --layer rules
  agentstateloop prompt --from dorlange3120`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "key", Usage: "`KEY` of a message, also an old one, as inbox list shows it"},
			&cli.StringFlag{Name: "from", Usage: "an example from the agent `HANDLE`, whose token proves it"},
			switchFlag("unproven", "with --from: no token proves it"),
			&cli.StringFlag{Name: "layer", Usage: "print only the layer `NAME`"},
			switchFlag("list", "list the layers"),
		},
		Action:      promptCmd{p.agents(), &p.out}.run,
		Subcommands: []*cli.Command{promptRunCommand(p)},
	}
}

func (k promptCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	only := c.String("layer")
	if c.IsSet("layer") && !slices.Contains(prompt.Names(), only) {
		return terminal.Usagef(terminal.DidYouMean(only, prompt.Names(), "the layers are "+strings.Join(prompt.Names(), ", ")),
			"unknown layer %q", only)
	}
	if c.Bool("unproven") && !c.IsSet("from") {
		return terminal.Usagef("", "--unproven works only with --from")
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	view, err := viewOf(c, a)
	if err != nil {
		return err
	}
	if only != "" {
		view.Layers = slices.DeleteFunc(view.Layers, func(l prompt.Layer) bool { return l.Name != only })
	}
	for _, fault := range view.Faults {
		k.out.Warn("%s", fault)
	}
	for _, l := range view.Layers {
		if l.Fault != "" {
			k.out.Warn("the built-in %s is used: %s", l.Name, l.Fault)
		}
	}
	switch {
	case c.Bool("json"):
		return k.out.JSON(view)
	case c.Bool("list"):
		k.printLayers(view)
	default:
		k.printPrompt(view, only != "")
	}
	return nil
}

// viewOf renders the prompt for the flags.
func viewOf(c *cli.Context, a *cycle.Agent) (cycle.PromptView, error) {
	if !c.IsSet("from") {
		return a.Prompt(c.String("key"))
	}
	if c.IsSet("key") {
		return cycle.PromptView{}, terminal.Usagef("", "--from shows an example: --key does not work with it")
	}
	handle := strings.TrimPrefix(c.String("from"), "@")
	if !state.ValidHandle(handle) {
		return cycle.PromptView{}, terminal.Usagef(state.HandleRule, "%q is not a valid handle", c.String("from"))
	}
	proof := state.ByToken
	if c.Bool("unproven") {
		proof = state.ByNone
	}
	return a.PromptFrom(handle, proof)
}

// printLayers prints a line for each layer.
func (k promptCmd) printLayers(view cycle.PromptView) {
	for _, l := range view.Layers {
		told := "told"
		if !l.Included {
			told = "-"
		}
		k.out.Printf("%-9s %-8s %-5s %6d bytes  %s\n", l.Name, l.Part, told, len(l.Text), plain.Line(l.From))
	}
}

// printPrompt prints the layers that the agent's prompt contains, or all layers of view.
func (k promptCmd) printPrompt(view cycle.PromptView, all bool) {
	var texts []string
	for _, l := range view.Layers {
		if (l.Included || all) && l.Text != "" {
			texts = append(texts, terminal.Printable(l.Text))
		}
	}
	if len(texts) > 0 {
		fmt.Fprintln(k.out.Stdout, strings.Join(texts, "\n\n"))
	}
}
