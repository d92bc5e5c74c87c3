package cron

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"agentstateloop/state"
)

// maxLine is the longest line we install, in bytes, tag included. Debian's
// crontab refuses a command from 999 bytes on; DESIGN 9 keeps well below.
const maxLine = 900

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@+-]+$`)

// Job is what the crontab line of one agent says.
type Job struct {
	Agent    string        // the handle, as in DESIGN 1
	Binary   string        // absolute path of agentstateloop
	Config   string        // absolute path of the agent's config file
	Interval time.Duration // one that Expr knows
	Args     []string      // what follows "poll --if-due --quiet", e.g. --linger 50s
}

// Line returns the crontab line of the job, without a newline:
//
//	*/30 * * * * '/abs/agentstateloop' --config '/abs/agent.toml' poll --if-due --quiet # agentstateloop goulard3120
//
// Paths are quoted for sh, and a "%", which would end the command for cron, is
// escaped as "\%" outside of the quotes, so that a cron that leaves the
// backslash in (BusyBox) names the same file.
//
// Refused are: a handle that is none, an interval that Expr refuses, a
// relative path, a [TemporaryBinary], control characters anywhere, and a line
// over 900 bytes.
func (j Job) Line() (string, error) {
	if !state.ValidHandle(j.Agent) {
		return "", fmt.Errorf("crontab line: %q is not a valid handle", j.Agent)
	}
	expr, err := Expr(j.Interval)
	if err != nil {
		return "", err
	}
	for _, path := range []string{j.Binary, j.Config} {
		if !filepath.IsAbs(path) {
			return "", fmt.Errorf("crontab line of %s: path %q is not absolute", j.Agent, path)
		}
	}
	if TemporaryBinary(j.Binary) {
		return "", fmt.Errorf("crontab line of %s: %s is a temporary binary that will be gone when cron runs it; build or install agentstateloop to a lasting place and run that", j.Agent, j.Binary)
	}

	words := []string{expr, quote(j.Binary), "--config", quote(j.Config), "poll", "--if-due", "--quiet"}
	for _, arg := range j.Args {
		if !plainWord.MatchString(arg) {
			arg = quote(arg)
		}
		words = append(words, arg)
	}
	line := strings.Join(words, " ") + tag(j.Agent)
	if strings.ContainsFunc(line, isControl) {
		return "", fmt.Errorf("crontab line of %s: control character in %q", j.Agent, line)
	}
	if len(line) > maxLine {
		return "", fmt.Errorf("crontab line of %s: %d bytes, and cron takes %d: use shorter paths", j.Agent, len(line), maxLine)
	}
	return line, nil
}

// quote makes s one word for sh, safe in a crontab. Each "%" and each "'"
// stands outside of the quotes behind a backslash. This also keeps a backslash
// of the path away from the "%", where it would undo the escape.
func quote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "%", `'\%'`).Replace(s) + "'"
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// TemporaryBinary says whether path names a program that "go run" or "go test"
// has built, below a folder of theirs: it is gone when cron would start it, and
// must never be pinned in a crontab (DESIGN 9).
func TemporaryBinary(path string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if strings.HasPrefix(part, "go-build") {
			return true
		}
	}
	return false
}
