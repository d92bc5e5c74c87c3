package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/turn"
)

// app returns the command line with all commands and their help.
func (p *program) app() *cli.App {
	app := p.appOf(builders())
	note := p.loader.HomeNote()
	app.CustomAppHelpTemplate = appHelp(app, note)
	for _, c := range app.Commands {
		setHelp(c)
	}
	return app
}

// appFor returns the command line for these arguments, which exclude the program's name. It
// contains only the commands that the arguments may name, without their help, and runs the same
// command as app. If the arguments name no command, or ask for help, it returns app.
func (p *program) appFor(args []string) *cli.App {
	app := p.appOf(slices.DeleteFunc(builders(), func(b builder) bool { return !slices.Contains(args, b.name) }))
	if asked := arrangeLoosely(app, args); asked.help || len(asked.commands) == 0 {
		return p.app()
	}
	return app
}

// appOf returns the command line with some of the commands.
func (p *program) appOf(some []builder) *cli.App {
	app := &cli.App{
		Name:    name,
		Usage:   "an AI agent that sleeps in cron and wakes for its operator",
		Version: p.loader.Version,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Aliases: []string{"a"}, Usage: "the agent with this `HANDLE`", Destination: &p.global.agent},
			textFlag(&p.global.config, "config", "the agent's configuration `FILE`"),
			&cli.BoolFlag{Name: "json", Usage: "print JSON, also for errors; see docs/json.md", Destination: &p.global.json},
		},
		Reader:          p.stdin,
		Writer:          p.out.Page(),
		ErrWriter:       p.out.Stderr,
		HideHelpCommand: true,
		// A value may contain a comma.
		DisableSliceFlagSeparator: true,
		OnUsageError:              asUsageError,
		// program.run reports errors and sets the exit code.
		ExitErrHandler: func(*cli.Context, error) {},
		// Otherwise the library reads the program's file.
		Compiled: p.loader.Now(),
	}
	for _, b := range some {
		c := b.build(p)
		p.finish(c)
		app.Commands = append(app.Commands, c)
	}
	return app
}

// finish sets the properties that all commands share.
func (p *program) finish(c *cli.Command) {
	c.HideHelpCommand = true
	c.OnUsageError = asUsageError
	if c.Before == nil && (len(c.Subcommands) == 0 || c.Action != nil) {
		c.Before = p.checkCaller(forEveryTurn)
	}
	for _, sub := range c.Subcommands {
		p.finish(sub)
	}
}

// asUsageError rewrites an error of the library, such as a flag value that is not a number.
func asUsageError(c *cli.Context, err error, _ bool) error {
	return terminal.Usagef("see "+c.Command.HelpName+" --help", "%s", wrongValue(err.Error()))
}

// wrongValue rewrites the library's error about a flag's value. Package flag wraps the error of
// a flag.Value in its own text, and writes every flag with one dash.
func wrongValue(text string) string {
	rest, invalid := strings.CutPrefix(text, "invalid value ")
	value, rest, found := strings.Cut(rest, " for flag -")
	flagName, why, named := strings.Cut(rest, ": ")
	if !invalid || !found || !named {
		return text
	}
	if why == "parse error" {
		why = "is not a whole number"
	}
	return fmt.Sprintf("%s %s %s", dashed(flagName), value, why)
}

// dashed returns a flag in the form that the user types.
func dashed(flagName string) string {
	if len(flagName) == 1 {
		return "-" + flagName
	}
	return "--" + flagName
}

// group is a section of --help with related commands.
type group struct {
	title    string // "" hides the group
	commands []builder
}

// builder builds a command on demand: cron starts a poll each minute, which needs only its own
// command.
type builder struct {
	name  string // of the command
	build func(*program) *cli.Command
}

// groups returns all commands, in the order of --help (docs/protocol.md, "Commands"). It is a
// function because man writes a page for each of them.
func groups() []group {
	return []group{
		{"set up", []builder{
			{"init", initCommand},
			{"login", loginCommand},
			{"listen", listenCommand},
			{"mesh", meshCommand},
			{"fleet", fleetCommand},
			{"completion", completionCommand},
			{"man", manCommand},
			{"demo", demoCommand},
			{"backup", backupCommand},
			{"restore", restoreCommand},
			{"move", moveCommand},
			{"uninstall", uninstallCommand},
		}},
		{"every day", []builder{
			{"status", statusCommand},
			{"tell", tellCommand},
			{"answer", answerCommand},
			{"inbox", inboxCommand},
			{"outbox", outboxCommand},
			{"history", historyCommand},
			{"remind", remindCommand},
			{"credit", creditCommand},
			{"reset", resetCommand},
			{"compact", compactCommand},
		}},
		{"when something is wrong", []builder{
			{"doctor", doctorCommand},
			{"explain", explainCommand},
			{"replay", replayCommand},
			{"stop", stopCommand},
			{"halt", haltCommand},
			{"resume", resumeCommand},
			{"prompt", promptCommand},
		}},
		{"for scripts", []builder{
			{"poll", pollCommand},
			{"nudge", nudgeCommand},
			{"transition", transitionCommand},
			{"report", reportCommand},
			{"events", eventsCommand},
			{"hook", hookCommand},
			{"version", versionCommand},
		}},
		{"for the agent", []builder{
			{"submit", submitCommand},
			{"ask", askCommand},
			{"send", sendCommand},
			{"sleep", sleepCommand},
			{"remember", rememberCommand},
			{turn.ToolServerCommand, mcpCommand},
		}},
		{"", []builder{
			{config.APICommand, reactCommand},
			{cycle.HooksCommand, callHooksCommand},
		}},
	}
}

// builders returns the builders of all commands, in the order of groups.
func builders() []builder {
	var all []builder
	for _, g := range groups() {
		all = append(all, g.commands...)
	}
	return all
}
