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
)

func (p *program) promptCommand() *cli.Command {
	return &cli.Command{
		Name:  "prompt",
		Usage: "show what the agent is told for a message",
		Description: `Prints the prompt of the next message, or of an example where none waits, made
of layers. Each layer is a template: a file of that name with .tmpl in the
folder of [turn] prompts replaces the built-in one. A file that is broken is
passed over, and said so here and in the log.

Example:
  agentstateloop prompt --layer rules`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "key", Usage: "of this message, also an old one: `KEY`, as inbox list shows it"},
			&cli.StringFlag{Name: "layer", Usage: "only this layer: `NAME`"},
			switchFlag("list", "list the layers"),
		},
		Action: p.prompt,
	}
}

func (p *program) prompt(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	only := c.String("layer")
	if c.IsSet("layer") && !slices.Contains(prompt.Names(), only) {
		return terminal.Usagef(terminal.DidYouMean(only, prompt.Names(), "the layers are "+strings.Join(prompt.Names(), ", ")),
			"there is no layer %q", only)
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	view, err := a.Prompt(c.String("key"))
	if err != nil {
		return err
	}
	if only != "" {
		view.Layers = slices.DeleteFunc(view.Layers, func(l prompt.Layer) bool { return l.Name != only })
	}
	for _, fault := range view.Faults {
		p.out.Warn("%s", fault)
	}
	for _, l := range view.Layers {
		if l.Fault != "" {
			p.out.Warn("the built-in %s is used: %s", l.Name, l.Fault)
		}
	}
	switch {
	case c.Bool("json"):
		return p.out.JSON(view)
	case c.Bool("list"):
		p.printLayers(view)
	default:
		p.printPrompt(view, only != "")
	}
	return nil
}

// printLayers prints a line a layer.
func (p *program) printLayers(view cycle.PromptView) {
	for _, l := range view.Layers {
		told := "told"
		if !l.Told {
			told = "-"
		}
		p.out.Printf("%-9s %-8s %-5s %6d bytes  %s\n", l.Name, l.Part, told, len(l.Text), plain.Line(l.From))
	}
}

// printPrompt prints the layers that are told, or all that are left of view.
func (p *program) printPrompt(view cycle.PromptView, all bool) {
	var texts []string
	for _, l := range view.Layers {
		if (l.Told || all) && l.Text != "" {
			texts = append(texts, terminal.Text(l.Text))
		}
	}
	if len(texts) > 0 {
		fmt.Fprintln(p.out.Stdout, strings.Join(texts, "\n\n"))
	}
}
