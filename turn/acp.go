package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/lazy"
)

// ACPCommand is the hidden subcommand that speaks the Agent Client Protocol with an
// agent. An attempt of runner ACP starts it as `Self __acp SETTINGS PROGRAM [ARG…]`,
// where SETTINGS is an ACPSettings as JSON.
const ACPCommand = "__acp"

// ACPSettings are the settings of ACPCommand for one attempt. They appear on a command line, so
// they contain no secret.
type ACPSettings struct {
	Version string    `json:"version,omitempty"` // our own version
	Probe   bool      `json:"probe,omitempty"`   // print an ACPAgent without running a turn
	Session string    `json:"session,omitempty"` // the session to continue; "" begins one
	Grants  ACPGrants `json:"grants,omitzero"`
	Tools   *ACPTools `json:"tools,omitempty"` // nil offers the agent no tools

	Options map[string]string `json:"options,omitempty"` // Config.Options

	// Settle is how long to wait for more text after the agent has answered the prompt; see
	// Config. Without any text yet, the wait lasts for Linger, unless MayBeSilent is set.
	Settle      time.Duration `json:"settle,omitempty"`
	Linger      time.Duration `json:"linger,omitempty"`
	MayBeSilent bool          `json:"may_be_silent,omitempty"`
}

// ACPTools tells the agent how to start the server of our tools (ToolServer). Variables names
// environment variables. Their values are those in the environment of ACPCommand.
type ACPTools struct {
	Name      string   `json:"name"`
	Command   string   `json:"command"`
	Args      []string `json:"args"`
	Variables []string `json:"variables"`
}

// acpTools returns the server in the form of ACPSettings.
func (s ToolServer) acpTools() *ACPTools {
	return &ACPTools{Name: s.Name, Command: s.Command, Args: s.Args, Variables: s.variables()}
}

// ACPGrants are the rights that the cause of a turn gives an ACP agent without a question to the
// operator.
type ACPGrants struct {
	Kinds []string `json:"kinds,omitempty"` // kinds of tools, from ToolKinds
	Ask   bool     `json:"ask,omitempty"`   // ask the operator about all other requests

	// Once holds the identities of the requests that the operator has allowed and that the agent
	// has not repeated since. Each is granted once.
	Once []string `json:"once,omitempty"`

	// Refused holds the identities of the requests that the operator has refused.
	Refused []string `json:"refused,omitempty"`
}

// ToolKinds returns the kinds of tools for which an ACP agent may ask permission, as the protocol
// names them.
func ToolKinds() []string {
	return []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
}

// ACPAgent is an ACP agent's description of itself.
type ACPAgent struct {
	Name     string `json:"name"` // "" if the agent does not report it
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
	Loads    bool   `json:"loads"`   // it can load a session, which repeats the session
	Resumes  bool   `json:"resumes"` // it can resume a session, which does not repeat it
}

// acpAgent runs our own process that speaks with the agent. Its output is Events, one per line.
// The agent's own messages about a missing login count as they do for exec.
func acpAgent() agent {
	return agent{
		argv:         execArgv,
		parse:        func() parser { return parseACP },
		hosted:       true,
		loginRefused: lazy.NewRegexp(`^` + APIRefused + `|(?i)` + knownLogins + `|api_key_invalid|authentication_failed|authentication required|credit balance is too low|401 unauthorized`),
		anyLogin:     true,
		anyLimit:     true,
	}
}

// parseACP parses a line of ACPCommand's output.
func parseACP(line []byte) []Event {
	events := parseAPI(line)
	for i := range events {
		events[i].Tool = toolName(events[i].Tool)
	}
	return events
}

// hostArgv returns the command line of our own process that speaks with the agent. program and
// args start the agent.
func (c Config) hostArgv(settings ACPSettings, program string, args []string) []string {
	settings.Version = c.Version
	text, err := json.Marshal(settings)
	if err != nil {
		panic(err) // every ACPSettings can be marshalled
	}
	return append([]string{c.Self, ACPCommand, string(text), program}, args...)
}

// ownRunner returns the runner whose login and sessions an ACP program uses, judging by the
// program's name, or "".
func ownRunner(program string) string {
	name := filepath.Base(program)
	for _, runner := range []string{Claude, Codex, Gemini} {
		if name == runner || strings.HasPrefix(name, runner+"-") {
			return runner
		}
	}
	return ""
}

// The operator's possible answers to a request for permission.
const (
	Allow  = "allow"
	Refuse = "refuse"
)

// Decisions about a request for permission, in the Text of a Permission.
const (
	PermissionGranted = "granted" // allowed by the cause of the turn
	PermissionRefused = "refused"
	PermissionAsked   = "asked"  // the operator was asked; Question is the question's id
	PermissionUsed    = "used"   // allowed by an earlier answer of the operator
	PermissionDenied  = "denied" // refused by an earlier answer of the operator
)

// Decisions returns the operator's decisions about the requests for permission in the attempts of
// the turn in dir, turns/<turn_id>. answers maps the ids of questions to answers; true allows.
// once omits the requests that were granted since. An unreadable record counts as not allowed.
func Decisions(dir string, answers map[string]bool) (once, refused []string) {
	if len(answers) == 0 {
		return nil, nil
	}
	for _, attempt := range attemptDirs(dir) {
		replayPermissions(attempt, func(e Event) {
			allowed, answered := answers[e.Question]
			switch {
			case e.Text == PermissionUsed:
				if i := slices.Index(once, e.ToolID); i >= 0 {
					once = slices.Delete(once, i, i+1)
				}
			case e.Text == PermissionAsked && answered && allowed:
				once = append(once, e.ToolID)
			case e.Text == PermissionAsked && answered:
				refused = append(refused, e.ToolID)
			}
		})
	}
	return once, refused
}

// attemptDirs returns the folders of the attempts at the turn in dir, oldest first.
func attemptDirs(dir string) (folders []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var epochs []uint64
	for _, e := range entries {
		if epoch, err := strconv.ParseUint(e.Name(), 10, 64); err == nil && e.IsDir() {
			epochs = append(epochs, epoch)
		}
	}
	slices.Sort(epochs)
	for _, epoch := range epochs {
		folders = append(folders, filepath.Join(dir, strconv.FormatUint(epoch, 10)))
	}
	return folders
}

// replayPermissions calls take with each Permission in the events.jsonl of the attempt in dir.
func replayPermissions(dir string, take func(Event)) {
	f, err := openEvents(dir)
	if err != nil {
		return
	}
	defer f.Close()
	readLines(io.LimitReader(f, maxReplay), func(line []byte) []Event {
		var e Event
		if json.Unmarshal(line, &e) == nil && e.Kind == Permission {
			take(e)
		}
		return nil
	}, func(Event) {})
}

// AskACP starts the program of runner ACP, in its sandbox if it has one, and returns the agent's
// description of itself. It runs no turn.
func (c Config) AskACP(ctx context.Context) (ACPAgent, error) {
	var agent ACPAgent
	program, err := c.Find()
	if err != nil {
		return agent, err
	}
	env, settings := c.environ(Attempt{}), ACPSettings{Probe: true}
	argv, err := c.commandLine(ctx, Attempt{}, program, c.Command, env, &settings)
	if err != nil {
		return agent, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = c.Workdir, environList(env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := capture.Run(ctx, cmd, capture.Limits{Stdout: maxVersion, Stderr: maxVersion})
	switch {
	case ctx.Err() != nil:
		return agent, fmt.Errorf("%s: %w", program, context.Cause(ctx))
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return agent, fmt.Errorf("%s: %w%s", program, err, stderrLine(out.Stderr))
	}
	if err := json.Unmarshal(out.Stdout, &agent); err != nil {
		return agent, fmt.Errorf("%s: %w", program, err)
	}
	return agent, nil
}
