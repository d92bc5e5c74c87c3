package terminal

import "strings"

// LiftedBy names the commands that lift a HALT that was set at these places:
// "mesh", or anything else for the agent itself.
func LiftedBy(halted []string) string {
	var commands []string
	for _, where := range halted {
		command := Program + " resume"
		if where == "mesh" {
			command = Program + " mesh resume"
		}
		commands = append(commands, "`"+command+"`")
	}
	return strings.Join(commands, " and ")
}

// AskForPolls asks whether what should have made a poll still runs: cron, or
// something else.
func AskForPolls(byOther bool) string {
	if byOther {
		return "does what polls still run?"
	}
	return "is cron running?"
}
