package turn

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/internal/account"
	"agentstateloop/internal/lazy"
)

// defaultPath is the PATH of an agent if Env does not set one.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// environ returns the agent's environment: a small base that is the same under cron, a shell and
// a daemon, then Config.Env, then the attempt's own variables (docs/design.md, "Turns"). The
// folder of our binary is the last in PATH, so that the agent can call us by name.
func (c Config) environ(a Attempt) map[string]string {
	env := map[string]string{
		"PATH":     defaultPath,
		"LANG":     "C.UTF-8",
		"TERM":     "dumb",
		"NO_COLOR": "1",
		"SHELL":    "/bin/sh",
	}
	maps.Copy(env, account.Environ())
	maps.Copy(env, c.Env)
	if dir := filepath.Dir(c.Self); !slices.Contains(filepath.SplitList(env["PATH"]), dir) {
		env["PATH"] += ":" + dir
	}
	maps.Copy(env, a.Env)
	maps.Copy(env, map[string]string{
		"PWD":                   c.Workdir,
		contextVariable:         filepath.Join(a.Dir, contextName),
		"AGENTSTATELOOP_OUTPUT": filepath.Join(a.Dir, outputName),
		"AGENTSTATELOOP_TURN":   a.TurnID,
		"AGENTSTATELOOP_EPOCH":  strconv.FormatUint(a.Epoch, 10),
	})
	return env
}

// contextVariable names the context folder. It identifies a process of the attempt, so every
// attempt's environment has it.
const contextVariable = "AGENTSTATELOOP_CONTEXT"

// contextEntry returns the environment entry of contextVariable for the attempt in dir.
func contextEntry(dir string) string {
	return contextVariable + "=" + filepath.Join(dir, contextName)
}

// environList returns env in the form of execve(2), sorted.
func environList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}

// lookPath finds a program as the child would: relative to workdir if the name has a slash,
// otherwise in path. Its errors are written for the operator.
func lookPath(program, path, workdir string) (string, error) {
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(workdir, program)
		}
		return program, executable(program)
	}
	var found error
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, program)
		err := executable(file)
		if err == nil && filepath.IsAbs(file) {
			return file, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			found = err
		}
	}
	if found != nil {
		return "", found
	}
	return "", fmt.Errorf("command not found: %s is not in PATH %s; set PATH in [turn] env, or use an absolute path", program, path)
}

// executable returns an error if the file cannot be run.
func executable(file string) error {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &notFound{file}
	}
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("command is not executable: %s; run chmod +x on it", file)
	}
	return nil
}

// notFound is the error for a missing command. It reads better than "stat x: no such file or
// directory".
type notFound struct{ file string }

func (e *notFound) Error() string        { return "command not found: " + e.file }
func (e *notFound) Is(target error) bool { return target == fs.ErrNotExist }

// NotLoggedIn is the exit code with which a program of runner "exec" reports that
// its own login was refused. It is EX_NOPERM of sysexits(3).
const NotLoggedIn = 77

// geminiNotLoggedIn is the exit code by which gemini reports that its login was refused.
const geminiNotLoggedIn = 41

// knownLogins are messages of well-known agents about a missing login. Scripts and ACP agents
// often call one of these agents. knownLogins is part of a regular expression.
const knownLogins = `not logged in|please run /login|codex login|invalid (x-)?api[ -]?key|api key not valid|authentication_error|please set an auth method`

// unauthorized matches the line by which any program reports that a server answered 401, or
// that its login has ended (RFC 9110, section 15.5.2; RFC 6750, section 3.1).
var unauthorized = lazy.NewRegexp(`(?i)` +
	`(^|: )[^a-z0-9]*401[^a-z0-9]*$` +
	`|\b(https?|status|code|error|api|response|returned|got|server|failed)\b[^0-9\n]{0,30}\b401\b` +
	`|\b401\b[^0-9a-z\n]{0,5}(unauthori[sz]ed|client error|error|auth|invalid|access|login|{)` +
	`|\bunauthori[sz]ed\b|\bunauthenticated\b|\binvalid_(api_key|token|grant)\b` +
	`|\b(api[ _-]?key|token|credentials?|log-?in|session|password)\b( is| are| has| have| was| were)?( been)? (not valid|invalid|expired|revoked|incorrect|refused|rejected)\b` +
	`|\b(invalid|expired|revoked|incorrect) ((access|auth|refresh|oauth|bearer|api|session)[ _-]?)?(key|token|credentials?|login)\b` +
	`|\bauthentication (has )?(failed|required|error|expired)\b` +
	`|\b(log|sign) ?in again\b|\b(login|log-in|sign-in) (is )?required\b|\b(must|need to|please|have to) (first )?(log|sign) ?in\b`)

// matchRunnerLogin returns the line by which a failed agent reports a refused login in the words of
// its runner, or "". The words count in every line of reported, which is the agent's error events
// and stderr. An exit code of the runner counts, too.
func (s *supervisor) matchRunnerLogin(res *Result, reported string) string {
	kind := s.output.agent
	if line := firstMatch(reported, kind.loginRefused); line != "" {
		return line
	}
	if kind.loginExit > 0 && res.ExitCode == kind.loginExit {
		return res.Reason
	}
	return ""
}

// matchAnyLogin is matchRunnerLogin for the words of any program. They count only where the agent
// explains its failure: in the reason and, for a program without a stream, in its last line. An
// earlier page that answered 401 does not count.
func (s *supervisor) matchAnyLogin(res *Result) string {
	kind := s.output.agent
	if !kind.anyLogin {
		return ""
	}
	last := []string{lastLine(res.Reason)}
	if kind.parse == nil && res.ExitCode != 0 {
		last = append(last, lastLine(res.Stderr), lastLine(res.Text))
	}
	return firstMatch(strings.Join(last, "\n"), unauthorized)
}
