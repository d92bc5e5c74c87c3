package turn

import (
	"fmt"

	"agentstateloop/internal/lazy"
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

	// anyLimit means that the general phrases for a limit also apply (saidLimit).
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
	return agent{}, "", fmt.Errorf("turn.runner %q starts no program: use exec, claude, codex, gemini, acp or api", runner)
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
