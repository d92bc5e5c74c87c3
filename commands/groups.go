package commands

import "github.com/urfave/cli/v2"

// group is a part of --help: the commands that one needs at one time.
type group struct {
	title    string // "" = not shown
	commands []*cli.Command
}

// commands returns all commands, in the order of --help (docs/design.md, "Commands").
func (p *program) commands() []group {
	return []group{
		{"set up", []*cli.Command{
			initCommand(p),
			loginCommand(p),
			listenCommand(p),
			meshCommand(p),
			fleetCommand(p),
			completionCommand(p),
			demoCommand(p),
			uninstallCommand(p),
		}},
		{"every day", []*cli.Command{
			statusCommand(p),
			tellCommand(p),
			answerCommand(p),
			inboxCommand(p),
			outboxCommand(p),
			historyCommand(p),
			remindCommand(p),
			creditCommand(p),
			resetCommand(p),
			compactCommand(p),
		}},
		{"when something is wrong", []*cli.Command{
			doctorCommand(p),
			stopCommand(p),
			haltCommand(p),
			resumeCommand(p),
			promptCommand(p),
		}},
		{"for scripts", []*cli.Command{
			pollCommand(p),
			nudgeCommand(p),
			transitionCommand(p),
			reportCommand(p),
			eventsCommand(p),
			hookCommand(p),
			versionCommand(p),
		}},
		{"for the agent", []*cli.Command{
			submitCommand(p),
			askCommand(p),
			sendCommand(p),
			sleepCommand(p),
			rememberCommand(p),
			mcpCommand(p),
		}},
		{"", []*cli.Command{
			reactCommand(p),
			callHooksCommand(p),
		}},
	}
}

func commandsOf(groups []group) []*cli.Command {
	var all []*cli.Command
	for _, g := range groups {
		all = append(all, g.commands...)
	}
	return all
}
