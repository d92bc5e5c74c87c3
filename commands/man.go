package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/manual"
	"agentstateloop/commands/terminal"
)

func manCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "write the manual pages into a folder",
		ArgsUsage: "DIR",
		Description: `Writes a page for the program, one for each command, and agent.toml(5), into
DIR/man1 and DIR/man5. A command with subcommands, such as inbox, has one page
for all of them. Replaces older pages.

Example:
  agentstateloop man ~/.local/share/man && man agentstateloop`,
		Action: p.action(1, 1, writeManual),
	}
}

// manOutput is the JSON output of man.
type manOutput struct {
	Files []string `json:"files"`
}

func writeManual(c *call) error {
	var o manOutput
	for _, page := range c.pages() {
		path := filepath.Join(c.arg(0), page.File())
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(page.String()), 0o644)
		}
		if err != nil {
			return terminal.WithHint(fmt.Errorf("write a manual page: %w", err), "name a folder that you may write to")
		}
		o.Files = append(o.Files, path)
	}
	return c.print(o, "%s in %s\n", terminal.Count(len(o.Files), "manual page"), c.arg(0))
}

// The titles of the pages that have no command.
const (
	configPage = "agent.toml"
	configRef  = configPage + "(5)"
	mainRef    = name + "(1)"
)

// pages returns all manual pages.
func (p *program) pages() []*manual.Page {
	info, _ := debug.ReadBuildInfo()
	built := versionOf(p.build, info)
	footer := manual.Footer{Version: built.Version}
	if built.CommitTime != nil {
		footer.Date, _, _ = strings.Cut(*built.CommitTime, "T")
	}
	app := p.app()
	all := []*manual.Page{mainPage(app, footer), settingsPage(p.build.Example, footer)}
	for _, c := range app.Commands {
		if !c.Hidden {
			all = append(all, commandPage(c, footer))
		}
	}
	return all
}

// mainPage returns the page of the program.
func mainPage(app *cli.App, footer manual.Footer) *manual.Page {
	page := manual.New(name, 1, app.Usage, footer)
	page.Heading("SYNOPSIS")
	page.Usage(name, "[@HANDLE] [--json] COMMAND [flags] [arguments]")
	page.Heading("COMMANDS")
	page.Text("Each command has a page of its own, such as " + name + "-init(1). Start with init.")
	refs := []string{configRef}
	for _, g := range groups() {
		if g.title == "" {
			continue
		}
		page.Subheading(g.title)
		for _, b := range g.commands {
			page.Item(b.name, "", app.Command(b.name).Usage)
			refs = append(refs, name+"-"+b.name+"(1)")
		}
	}
	page.Heading("OPTIONS")
	page.Text("They may be before or after the command.")
	for _, f := range globalFlags {
		page.Item(f.flag, f.value, f.text)
	}
	page.Heading("EXIT STATUS")
	page.Text(exitCodes)
	page.SeeAlso(refs...)
	return page
}

// commandPage returns the page of a command and its subcommands.
func commandPage(c *cli.Command, footer manual.Footer) *manual.Page {
	page := manual.New(name+"-"+c.Name, 1, c.Usage, footer)
	page.Heading("SYNOPSIS")
	if c.Action != nil {
		addUsage(page, c, c.Name)
	}
	for _, sub := range c.Subcommands {
		addUsage(page, sub, c.Name+" "+sub.Name)
	}
	page.Heading("DESCRIPTION")
	page.Text(c.Description)
	if c.Description == "" {
		page.Text("The subcommands are below.")
	}
	for _, sub := range c.Subcommands {
		page.Subheading(c.Name + " " + sub.Name + " - " + sub.Usage)
		page.Text(sub.Description)
		addFlags(page, sub.Flags)
	}
	page.Heading("OPTIONS")
	addFlags(page, c.Flags)
	page.Text("The options of all commands and the exit status are in " + mainRef + ".")
	page.SeeAlso(mainRef, configRef)
	return page
}

func addUsage(page *manual.Page, c *cli.Command, path string) {
	page.Usage(name+" "+path, strings.TrimSpace("[flags] "+c.ArgsUsage))
}

func addFlags(page *manual.Page, flags []cli.Flag) {
	for _, f := range flags {
		h := helpOf(f)
		page.Item(h.flag, h.value, h.text)
	}
}

// settingsPage returns the page of the configuration.
func settingsPage(example string, footer manual.Footer) *manual.Page {
	page := manual.New(configPage, 5, "the configuration of an agent of "+name, footer)
	page.Heading("DESCRIPTION")
	page.Text("The default is ~/.config/agentstateloop/agent.toml. The text below is that of agent.toml.example, a complete configuration that comes with the program.")
	page.Settings(example)
	page.SeeAlso(mainRef, name+"-init(1)", name+"-doctor(1)")
	return page
}
