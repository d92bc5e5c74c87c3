package doctor

import (
	"context"
	"os"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/turn"
)

// versionTimeout bounds how long an agent may take to print its version. Those
// written in JavaScript take seconds on a small machine.
const versionTimeout = 20 * time.Second

// agentCheck finds the agent's program as a turn would, from cron. It asks the
// agents that we know for their version.
type agentCheck struct {
	job     *config.Loader
	config  *config.Config
	turn    *turn.Config // nil: none, or [turn] has an error
	network bool
}

func (c agentCheck) run(ctx context.Context) []Finding {
	return []Finding{c.look(ctx)}
}

func (c agentCheck) look(ctx context.Context) Finding {
	const name = "agent"
	t := c.turn
	switch {
	case t == nil && c.config.File.Turn.Runner == "none":
		return good(name, `[turn] runner = "none": messages wait for `+"`agentstateloop inbox next`")
	case t == nil:
		return skip(name, "[turn] has an error, see config", "")
	case t.Runner == turn.API:
		return apiCheck{job: c.job, config: c.config, network: c.network}.look(ctx)
	}
	program, err := t.Find()
	if err != nil {
		return failure(name, findHint(t), err)
	}
	if t.Runner == turn.Exec {
		return good(name, "%s exists, and can be run", program)
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	says, err := t.AskVersion(ctx)
	if err != nil {
		return failure(name, "run it by hand as your user, with the PATH of env in [turn]", err)
	}
	return good(name, "%s is %s", program, says)
}

// findHint says what to do about a program that is not found.
func findHint(t *turn.Config) string {
	if info, err := os.Stat(t.Workdir); t.Workdir != "" && (err != nil || !info.IsDir()) {
		return "mkdir -p " + t.Workdir
	}
	if len(t.Command) > 0 && strings.Contains(t.Command[0], "/") {
		return "name a program that exists and can be run in command of [turn]"
	}
	return "set PATH in env of [turn], or the whole path in command"
}
