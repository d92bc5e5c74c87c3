package commands

import (
	"context"
	"os"
	"strings"
	"time"

	"agentstateloop/turn"
)

// versionPatience is how long an agent may take to tell its version. Those that
// are written in JavaScript take seconds on a small machine.
const versionPatience = 20 * time.Second

// checkAgent finds the agent's program as a turn would, from cron, and asks it
// for its version, but for programs that we do not know.
func (d *patient) checkAgent(ctx context.Context) []finding {
	const check = "agent"
	if d.agent == nil {
		return unknown(check)
	}
	t := d.agent.Turn
	if t == nil && d.config.File.Turn.Runner == "none" {
		return []finding{good(check, `[turn] runner = "none": messages wait for `+"`agentstateloop inbox next`")}
	}
	if t == nil {
		return skipped(check, "[turn] is not right, see config", "")
	}
	if t.Runner == turn.API {
		return d.checkAPI(ctx)
	}
	program, err := t.Find()
	if err != nil {
		return []finding{failure(check, findHint(t), err)}
	}
	if t.Runner == turn.Exec {
		return []finding{good(check, "%s is there, and can be run", program)}
	}
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	says, err := t.AskVersion(ctx)
	if err != nil {
		return []finding{failure(check, "run it by hand as your user, with the PATH of env in [turn]", err)}
	}
	return []finding{good(check, "%s is %s", program, says)}
}

// findHint is what to do about a program that is not found.
func findHint(t *turn.Config) string {
	if info, err := os.Stat(t.Workdir); t.Workdir != "" && (err != nil || !info.IsDir()) {
		return "mkdir -p " + t.Workdir
	}
	if len(t.Command) > 0 && strings.Contains(t.Command[0], "/") {
		return "name a program that is there and can be run in command of [turn]"
	}
	return "set PATH in env of [turn], or the whole path in command"
}
