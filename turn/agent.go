package turn

import (
	"fmt"

	"agentstateloop/internal/lazy"
)

// agent holds what differs between the runners' programs.
type agent struct {
	// argv returns the command line. command is Config.Command, never empty.
	argv func(command []string, a Attempt) []string

	// parse returns a parser of its stream; nil means plain text.
	parse func() parser

	// separator is put between two TextDeltas.
	separator string

	// cumulative means that its usage counts the whole session, including what
	// came before a resume.
	cumulative bool

	// hosted means that our own process runs its program and speaks with it
	// (ACPCommand). It ends in order when it is sent cancelSignal.
	hosted bool

	// billsCalls means that it reports the cost of each call while it runs.
	billsCalls bool

	// loginRefused matches what the agent prints, on either stream, when its login or its
	// credit is refused. Nil matches nothing.
	loginRefused *lazy.Regexp

	// refusals matches what the agent prints on stderr about something that it was not
	// permitted to do: a tool, and what. Nil matches nothing.
	refusals *lazy.Regexp

	// loginExit is the exit code that means a refused login; 0 if none does.
	loginExit int

	// anyLogin means that the words count by which any program reports a refused login.
	anyLogin bool

	// anyLimit means that the words count by which any program reports a limit.
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

// maxSession bounds, in bytes, the id of a session.
const maxSession = 128

// validSession reports whether id may stand in argv as a session. Agents choose
// the ids, and what an agent printed must not become an option.
func validSession(id string) bool { return len(id) <= maxSession && plainID.Get().MatchString(id) }
