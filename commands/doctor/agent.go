package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/turn"
)

// versionTimeout limits how long an agent may take to print its version. An agent written in
// JavaScript takes seconds on a small machine.
const versionTimeout = 20 * time.Second

// forVersion returns the context for asking an agent for its version.
func forVersion(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, versionTimeout)
}

// agentCheck looks for the agent's program where a turn started by cron would look. It asks a
// supported agent for its version.
type agentCheck struct {
	loader  *config.Loader
	config  *config.Config
	turn    *turn.Config // nil if runner = "none", or if [turn] has an error
	network bool

	backends []cycle.Backend // besides turn
	name     string          // of the finding
}

func (c agentCheck) run(ctx context.Context) []Finding {
	c.name = "agent"
	found := []Finding{c.finding(ctx)}
	n := 0
	for _, b := range c.backends {
		if b.Low {
			continue // checked with the usual program
		}
		n++
		fallback := agentCheck{loader: c.loader, config: c.config.Fallback(n), turn: b.Turn, network: c.network, name: fmt.Sprintf("fallback.%d", n)}
		found = append(found, fallback.finding(ctx))
	}
	return found
}

func (c agentCheck) finding(ctx context.Context) Finding {
	name, t := c.name, c.turn
	switch {
	case t == nil && c.config.File.Turn.Runner == "none":
		return good(name, `[turn] runner = "none": messages wait for `+"`agentstateloop inbox next`")
	case t == nil:
		return skip(name, "[turn] has an error; see config", "")
	case t.Runner == turn.API:
		return apiCheck{loader: c.loader, config: c.config, network: c.network, name: name}.finding(ctx)
	}
	program, err := t.Find()
	if err != nil {
		return failure(name, findHint(t), err).fixedBy(makeWorkdir(t))
	}
	if len(t.Low.Command) > 0 {
		low, _ := t.WithLow(turn.Attempt{})
		if _, err := low.Find(); err != nil {
			return failure(name, "set low_command in [turn] to an executable program; it runs while money is short", err)
		}
	}
	if t.Runner == turn.Exec {
		return good(name, "%s is executable", program)
	}
	if t.Runner == turn.ACP {
		return askACP(ctx, name, t)
	}
	ctx, cancel := forVersion(ctx)
	defer cancel()
	version, err := t.AskVersion(ctx)
	switch {
	case err != nil && t.Box != nil:
		return failure(name, "it runs in a sandbox; if it needs another folder, add that to [turn.box]", err)
	case err != nil:
		return failure(name, "run it yourself, with the PATH from env in [turn]", err)
	}
	if t.KeepsLow(c.config.File.Turn.Permissions.Operator) {
		return bad(Warn, name, `set the normal model too: command = ["claude", "--model", "…"] in [turn], or ANTHROPIC_MODEL in env of [turn]`,
			"%s reports %s; a claude session keeps the model of low_args when there is money again", program, version)
	}
	return good(name, "%s reports %s", program, version)
}

// acpTimeout limits how long an agent may take to identify itself.
const acpTimeout = 45 * time.Second

// forACP returns the context for asking an agent to identify itself.
func forACP(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, acpTimeout)
}

// askACP starts the agent of runner = "acp" and asks it to identify itself. It runs no turn.
func askACP(ctx context.Context, name string, t *turn.Config) Finding {
	ctx, cancel := forACP(ctx)
	defer cancel()
	about, err := t.AskACP(ctx)
	if err != nil && t.Box != nil {
		return failure(name, "it runs in a sandbox; if it needs another folder, add that to [turn.box]", err)
	}
	if err != nil {
		return failure(name, "run it yourself, with the PATH from env in [turn]; it must speak ACP on standard input and output", err)
	}
	who := strings.TrimSpace(cmp.Or(about.Name, t.Command[0]) + " " + about.Version)
	if !about.Loads && !about.Resumes {
		return good(name, "%s speaks ACP %d; it cannot load sessions, so each turn starts a new one and reads the earlier conversation", who, about.Protocol)
	}
	return good(name, "%s speaks ACP %d; its sessions continue from turn to turn", who, about.Protocol)
}

// makeWorkdir returns the repair that creates the agent's missing work folder, or nil if that is
// not the problem.
func makeWorkdir(t *turn.Config) *repair {
	if t.Workdir == "" {
		return nil
	}
	return makeFolder(t.Workdir)
}

// findHint returns the hint for a missing agent program.
func findHint(t *turn.Config) string {
	if info, err := os.Stat(t.Workdir); t.Workdir != "" && (err != nil || !info.IsDir()) {
		return "mkdir -p " + t.Workdir
	}
	if len(t.Command) > 0 && strings.Contains(t.Command[0], "/") {
		return "set command in [turn] to an executable file"
	}
	return "set PATH in env of [turn], or use the program's full path in command of [turn]"
}
