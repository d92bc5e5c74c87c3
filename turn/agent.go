package turn

import (
	"fmt"
	"regexp"
)

// agent is what one runner needs to be told about its program.
type agent struct {
	// argv is the command line: command is Config.Command, never empty.
	argv func(command []string, a Attempt) []string

	// parse makes the parser of its stream; nil means plain text.
	parse func() parser

	// joint stands between two TextDeltas.
	separator string

	// metered says that its usage counts the whole session, what came before a
	// resume included.
	cumulative bool

	// settles says that it tells what each call costs while it runs.
	billsCalls bool

	// refused and stale look for what the agent says, on either stream, when
	// its login or its credit is refused, and when the session to resume is
	// gone. Nil means that it has no such thing.
	loginRefused, sessionGone *regexp.Regexp

	// refusedExit is an exit code that says the former; 0: none does.
	loginExit int
}

// agentFor gives the agent of a runner and its default program.
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
	}
	return agent{}, "", fmt.Errorf("turn.runner %q starts no program: want exec, claude, codex, gemini or api", runner)
}

// NotLoggedIn is the exit code with which a program of runner "exec" says that
// its own login was refused: EX_NOPERM of sysexits.
const NotLoggedIn = 77

// execAgent runs any program. Behind many a script there is a well-known one,
// which says in its own words that it is not logged in. No more is read into
// what a stranger prints: a message must not wait for ever because a page on its
// way answered 401.
func execAgent() agent {
	return agent{
		argv:         execArgv,
		loginRefused: regexp.MustCompile(`(?i)not logged in|please run /login|codex login|invalid (x-)?api[ -]key|api key not valid|authentication_error|please set an auth method`),
		loginExit:    NotLoggedIn,
	}
}

func execArgv(command []string, a Attempt) []string {
	return append(command[:len(command):len(command)], a.Extra...)
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// validSession says what may stand in argv as a session: agents name their own,
// and what an agent printed must not become an option.
func validSession(id string) bool { return len(id) <= 128 && plainID.MatchString(id) }
