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

	// loginRefused and sessionGone match what the agent prints, on either stream,
	// when its login or its credit is refused, and when the session to resume is
	// gone. Nil matches nothing.
	loginRefused, sessionGone *lazy.Regexp

	// loginExit is the exit code that means a refused login; 0 if none does.
	loginExit int
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

// NotLoggedIn is the exit code with which a program of runner "exec" reports that
// its own login was refused. It is EX_NOPERM of sysexits(3).
const NotLoggedIn = 77

// execAgent runs any program. Many scripts call a well-known agent, so the
// messages of those agents about a missing login are recognized. Nothing more is:
// a message must not wait forever because some web page answered 401.
func execAgent() agent {
	return agent{
		argv:         execArgv,
		loginRefused: lazy.NewRegexp(`(?i)not logged in|please run /login|codex login|invalid (x-)?api[ -]key|api key not valid|authentication_error|please set an auth method`),
		loginExit:    NotLoggedIn,
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
