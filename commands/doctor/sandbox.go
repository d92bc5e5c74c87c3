package doctor

import (
	"bytes"
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
