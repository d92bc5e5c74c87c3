package turn

import (
	"encoding/json"
	"fmt"
	"strings"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
)

// agent holds the differences between the runners' programs.
type agent struct {
	// argv returns the command line. command is Config.Command, never empty.
	argv func(command []string, a Attempt) []string

	// parse returns a parser for the agent's output; nil means plain text.
	parse func() parser

	// separator joins consecutive TextDeltas.
	separator string

	// cumulative means that the agent's usage counts the whole session, including turns before a
	// resume.
	cumulative bool

	// hosted means that our own process (ACPCommand) runs the agent's program and speaks with it.
	// That process ends its turn cleanly when it receives cancelSignal.
	hosted bool

	// billsCalls means that the agent reports the cost of each call while it runs.
	billsCalls bool

	// loginRefused matches a line on either stream that reports a refused login or missing
	// credit. Nil matches no line.
	loginRefused *lazy.Regexp

	// refusals matches a report on stderr of a denied action: the tool and its input. Nil matches
	// no line.
	refusals *lazy.Regexp

	// loginExit is the exit code that means a refused login, or 0.
	loginExit int

	// anyLogin means that the general phrases for a refused login also apply (unauthorized).
	anyLogin bool

	// anyLimit means that the general phrases for a limit also apply (parseLimit).
	anyLimit bool
}

// agentFor returns the agent of a runner and its default program.
func agentFor(runner string) (agent, string, error) {
	switch runner {
	case Exec:
		return execAgent(), "", nil
	case Claude:
		return claudeAgent(), "claude", nil
	case Codex:
		return codexAgent(), "codex", nil
	case Gemini:
		return geminiAgent(), "gemini", nil
	case API:
		return apiAgent(), "", nil
	case ACP:
		return acpAgent(), "", nil
	}
	return agent{}, "", fmt.Errorf("unknown turn.runner %q: use exec, claude, codex, gemini, acp or api", runner)
}

// execAgent runs any program.
func execAgent() agent {
	return agent{
		argv:         execArgv,
		loginRefused: lazy.NewRegexp(`(?i)` + knownLogins),
		loginExit:    NotLoggedIn,
		anyLogin:     true,
		anyLimit:     true,
	}
}

func execArgv(command []string, a Attempt) []string {
	return append(command[:len(command):len(command)], a.Extra...)
}

var plainID = lazy.NewRegexp(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// maxSession bounds a session id, in bytes.
const maxSession = 128

// validSession reports whether id may appear as a session in argv. Agents choose their ids, and
// an agent's output must not become an option.
func validSession(id string) bool { return len(id) <= maxSession && plainID.Get().MatchString(id) }

// APIRefused is the prefix of the Error event by which our own loop reports a refused key or an
// account without credit.
const APIRefused = "credential refused: "

// apiAgent runs our own loop (docs/decisions/0010-built-in-loop.md). It prints Events, one per
// line. It has no session: its prompt is complete. Its tools, not its arguments, decide what a turn
// may do.
func apiAgent() agent {
	return agent{
		argv:         func(command []string, _ Attempt) []string { return command },
		parse:        func() parser { return parseAPI },
		billsCalls:   true,
		loginRefused: lazy.NewRegexp(`^` + APIRefused),
	}
}

func parseAPI(line []byte) []Event {
	var e Event
	if json.Unmarshal(line, &e) != nil {
		return unknownEvent(line)
	}
	switch e.Kind {
	case SessionStart, Thinking, TextDelta, ToolUse, ToolResult, Permission, Done, Error, Note, Refused, Unknown:
		return []Event{e}
	}
	return unknownEvent(line)
}

// maxLastLine bounds a line that a reason quotes, in bytes.
const maxLastLine = 300

// clean makes text fit for a mail and a terminal: the lines of plain.Text without surrounding
// white space. A lone carriage return, as progress bars print it, does not begin a line.
func clean(text string) string {
	return strings.TrimSpace(plain.Text(strings.ReplaceAll(text, "\r", "")))
}

// tail keeps the last bytes written to it.
type tail struct {
	max int
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.buf = append(t.buf, b[max(0, len(b)-t.max):]...)
	t.buf = t.buf[max(0, len(t.buf)-t.max):]
	return len(b), nil
}

func (t *tail) String() string { return clean(string(t.buf)) }

// lastLine returns the last line of s, truncated to maxLastLine.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return plain.Cut(s[strings.LastIndexByte(s, '\n')+1:], maxLastLine)
}
