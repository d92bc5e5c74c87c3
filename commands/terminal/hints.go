package terminal

import "strings"

// ResumeCommands returns the commands that lift a HALT, quoted and joined with "and". Each place in
// halted is "mesh", or another text for the agent itself.
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

// OverdueHint returns the question to ask when a poll is overdue. byOther reports whether a program
// other than cron runs the polls.
func OverdueHint(byOther bool) string {
	if byOther {
		return "is the program that runs the polls still running?"
	}
	return "is cron running?"
}
