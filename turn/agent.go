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
	joint string

	// refused and stale look for what the agent says, on either stream, when
	// its login or its credit is refused, and when the session to resume is
	// gone. Nil means that it has no such thing.
	refused, stale *regexp.Regexp
}

// agentFor gives the agent of a runner and its default program.
func agentFor(runner string) (agent, string, error) {
	switch runner {
	case Exec:
		return agent{argv: execArgv}, "", nil
	case Claude:
		return claudeAgent(), "claude", nil
	case Codex:
		return codexAgent(), "codex", nil
	case Gemini:
		return geminiAgent(), "gemini", nil
	}
	return agent{}, "", fmt.Errorf("turn.runner %q starts no program: want exec, claude, codex or gemini", runner)
}

func execArgv(command []string, a Attempt) []string {
	return append(command[:len(command):len(command)], a.Extra...)
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// validSession says what may stand in argv as a session: agents name their own,
// and what an agent printed must not become an option.
func validSession(id string) bool { return len(id) <= 128 && plainID.MatchString(id) }
