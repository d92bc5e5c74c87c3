package terminal

import "strings"

// ResumeCommands names the commands that lift a HALT that was set at these places:
// "mesh", or anything else for the agent itself.
func ResumeCommands(halted []string) string {
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

// OverdueHint asks whether what should have made a poll still runs: cron, or
// something else.
func OverdueHint(byOther bool) string {
	if byOther {
		return "is the program that polls still running?"
	}
	return "is cron running?"
}
