package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/turn"
	"agentstateloop/turn/box"
	"agentstateloop/turn/react"
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

// apiCheck asks the model API of runner = "api" for its models. The request is free and shows
// whether the API answers, accepts the key and has the model.
type apiCheck struct {
	loader  *config.Loader
	config  *config.Config
	network bool
	name    string // of the finding
}

func (c apiCheck) finding(ctx context.Context) Finding {
	name, s := c.name, c.config.File.API
	api, err := c.loader.API(c.config)
	if err != nil {
		return skip(name, "[api] has an error; see config", "fix the configuration")
	}
	where := cmp.Or(s.BaseURL, s.Provider)
	if !c.network {
		return good(name, "built-in loop with %s from %s, which was not contacted", s.Model, where)
	}
	key := ""
	if api.Key != nil {
		if key, err = api.Key(ctx); err != nil {
			return skip(name, "the API key for "+where+" could not be read; see secret.api", "")
		}
	}
	models, err := api.Model(key, checkTimeout).Models(ctx)
	asking, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if window, ok := react.OllamaWindow(asking, s.BaseURL, s.Model); ok && window < s.ContextWindow {
		return bad(Warn, name, fmt.Sprintf("set context_window = %d in [api], or OLLAMA_CONTEXT_LENGTH=%d for Ollama", window, s.ContextWindow),
			"Ollama reads only %d tokens of a request to %s and silently drops the rest, but context_window is %d", window, s.Model, s.ContextWindow)
	}
	switch {
	case react.ListUnsupported(err):
		return good(name, "built-in loop with %s from %s, which answers but does not list its models", s.Model, where)
	case react.KeyRefused(err):
		return bad(Error, name, "check the API key in [api], and your account with the provider", "request to %s: %v", where, err)
	case err != nil:
		return bad(Error, name, "check base_url in [api], or try again later", "request to %s: %v", where, err)
	}
	for _, model := range []string{s.Model, s.LowModel, s.SummaryModel} {
		if model != "" && len(models) > 0 && !config.ListsModel(models, model) {
			return bad(Warn, name, "check the model's name with the provider; turns with this one may fail", "%s does not list the model %s", where, model)
		}
	}
	return good(name, "built-in loop with %s from %s, which answers", s.Model, where)
}

// boxTimeout limits the attempts to escape from a sandbox.
const boxTimeout = 30 * time.Second

// forBox returns the context of the attempts.
func forBox(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, boxTimeout)
}

// lowestOutside is the lowest pid that cannot exist in a sandbox, which has few processes.
const lowestOutside = 64

// visiblePID returns a pid if no process of a sandbox can have it, or else 0.
func visiblePID(pid int) int {
	if pid < lowestOutside {
		return 0
	}
	return pid
}

// boxCheck creates the configured sandbox and tries to escape from inside.
type boxCheck struct {
	config *config.Config
	agent  *cycle.Agent
	home   string
}

func (c boxCheck) run(ctx context.Context) []Finding {
	const name = "box"
	ctx, cancel := forBox(ctx)
	defer cancel()
	t := c.agent.Turn
	switch {
	case t == nil:
		return nil
	case t.Box != nil:
		way, err := box.Bubblewrap(ctx, t.Self)
		if err != nil {
			return []Finding{bad(Error, name, box.Advice(err)+`; until then no turns run, because sandbox = "bwrap" is set`, "cannot create a sandbox: %v", err)}
		}
		program, err := t.Find()
		if err != nil {
			return []Finding{skip(name, "the agent's program was not found; see agent", "")}
		}
		b, err := t.SandboxFor(program)
		if err != nil {
			return []Finding{failure(name, "see [turn.box]", err)}
		}
		return []Finding{c.try(ctx, way, b)}
	case t.Runner == turn.API && c.hasExec():
		way, err := box.Find(ctx, t.Self)
		if err != nil {
			return []Finding{bad(Warn, name, "without a sandbox the model has no exec tool", "%v", err)}
		}
		b := c.config.ExecBox()
		b.Self, b.Write, b.Read = t.Self, []string{t.Workdir}, append(b.Read, t.Self)
		return []Finding{c.try(ctx, way, b)}
	case t.Runner == turn.API:
		return nil
	}
	return []Finding{bad(Info, name, `set sandbox = "bwrap" in [turn] to confine it; see docs/security.md`, "the agent runs without a sandbox, with all rights of its user")}
}

// hasExec reports whether a turn may call exec.
func (c boxCheck) hasExec() bool {
	tools := c.config.File.API.Tools
	return slices.Contains(tools.Operator, react.Exec) || slices.Contains(tools.Peer, react.Exec)
}

// try attempts to escape from the sandbox and reports which barriers held.
func (c boxCheck) try(ctx context.Context, way box.Way, b box.Box) Finding {
	const name = "box"
	targets := box.Targets{
		Hidden: map[string]string{"the configuration": c.config.Path, "the state": c.agent.Store.Dir, "the ssh keys": filepath.Join(c.home, ".ssh")},
		Marker: filepath.Join(filepath.Dir(c.agent.Turn.Workdir), fmt.Sprintf(".agentstateloop-doctor-%d", os.Getpid())),
		PID:    visiblePID(os.Getpid()), Local: b.LocalSockets,
	}
	if !b.Network {
		server, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return failure(name, "", err)
		}
		defer server.Close()
		targets.Address = server.Addr().String()
	}
	argument, err := json.Marshal(targets)
	if err != nil {
		return failure(name, "", err)
	}
	var out, stderr bytes.Buffer
	err = b.Run(ctx, way, box.Program{Argv: []string{b.Self, box.EscapesCommand, string(argument)}, Env: os.Environ(), Stdout: &out, Stderr: &stderr})
	var attempts []box.Escape
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &attempts)
	}
	if err != nil {
		return bad(Error, name, "turns in the sandbox will fail too", "cannot test the sandbox: %v %s", err, strings.TrimSpace(stderr.String()))
	}
	marked := os.Remove(targets.Marker) == nil
	attempts = append(attempts, box.Escape{What: "writes next to the working folder", Out: marked})
	var escapes []string
	for _, e := range attempts {
		if e.Out {
			escapes = append(escapes, e.What)
		}
	}
	slices.Sort(escapes)
	if len(escapes) > 0 {
		return bad(Error, name, "do not run the agent on this machine until this is understood; please report it", "a program in the sandbox %s (%d of %d escape attempts succeeded)", strings.Join(escapes, ", "), len(escapes), len(attempts))
	}
	network := "without network"
	if b.Network {
		network = "with this machine's network"
	}
	return good(name, "the sandbox (%s, %s) holds: %d of %[3]d escape attempts failed", way, network, len(attempts))
}
