package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/turn"
)

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

// groups has all commands, in the order of --help (docs/protocol.md, "Commands").
var groups = []group{
	{"set up", []builder{
		{"init", initCommand},
		{"login", loginCommand},
		{"listen", listenCommand},
		{"mesh", meshCommand},
		{"fleet", fleetCommand},
		{"completion", completionCommand},
		{"demo", demoCommand},
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

// builders returns the builders of all commands, in the order of groups.
func builders() []builder {
	var all []builder
	for _, g := range groups {
		all = append(all, g.commands...)
	}
	return all
}
