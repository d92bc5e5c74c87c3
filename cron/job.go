package cron

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/internal/lazy"
	"agentstateloop/state"
)

// maxLine is the maximum length of our lines, in bytes, including the tag. Debian's crontab
// refuses a command of 999 bytes or more.
const maxLine = 900

var plainWord = lazy.NewRegexp(`^[A-Za-z0-9_./:=,@+-]+$`)

// Job describes the crontab lines of one agent: the line of its interval and, while Alarm is
// set, an alarm line.
type Job struct {
	Agent    string        // the handle
	Binary   string        // absolute path of agentstateloop
	Config   string        // absolute path of the agent's config file
	Interval time.Duration // an interval that Expr accepts
	Args     []string      // further arguments of poll at the interval, e.g. --linger 50s

	// Alarm is the minute of the alarm line, in the time zone of cron. The zero time means no
	// alarm line.
	Alarm time.Time
}

// Line returns the crontab line of the interval, without a newline:
//
//	*/30 * * * * '/abs/agentstateloop' --config '/abs/agent.toml' poll --if-due --quiet # agentstateloop goulard3120
//
// Paths are quoted for sh. A "%" would end the command for cron, so it is escaped as "\%",
// outside the quotes. BusyBox does not remove the backslash, but outside the quotes the shell
// does.
//
// Line returns an error for an invalid handle, an interval that Expr refuses, a relative path,
// a [TemporaryBinary], a control character, and a line longer than 900 bytes.
func (j Job) Line() (string, error) {
	expr, err := Expr(j.Interval)
	if err != nil {
		return "", err
	}
	return j.line(expr, j.Args, tag(j.Agent))
}

// AlarmLine returns the alarm line of the job, as Line does, or "" if Alarm is not set:
//
//	12 14 22 11 * '/abs/agentstateloop' --config '/abs/agent.toml' poll --if-due --quiet # agentstateloop goulard3120 alarm
func (j Job) AlarmLine() (string, error) {
	if j.Alarm.IsZero() {
		return "", nil
	}
	return j.line(AlarmExpr(j.Alarm), nil, alarmTag(j.Agent))
}

// Lines returns the line of the interval and the alarm line.
func (j Job) Lines() (line, alarm string, err error) {
	if line, err = j.Line(); err != nil {
		return "", "", err
	}
	alarm, err = j.AlarmLine()
	return line, alarm, err
}

// line returns a crontab line that polls with these arguments at the times of expr.
func (j Job) line(expr string, args []string, tag string) (string, error) {
	if !state.ValidHandle(j.Agent) {
		return "", fmt.Errorf("crontab line: %q is not a valid handle", j.Agent)
	}
	for _, path := range []string{j.Binary, j.Config} {
		if !filepath.IsAbs(path) {
			return "", fmt.Errorf("crontab line of %s: path %q is not absolute", j.Agent, path)
		}
	}
	if TemporaryBinary(j.Binary) {
		return "", fmt.Errorf("crontab line of %s: %s is a temporary binary, deleted before cron can run it: build or install agentstateloop, and run that binary", j.Agent, j.Binary)
	}

	words := []string{expr, quote(j.Binary), "--config", quote(j.Config), "poll", "--if-due", "--quiet"}
	for _, arg := range args {
		if !plainWord.Get().MatchString(arg) {
			arg = quote(arg)
		}
		words = append(words, arg)
	}
	line := strings.Join(words, " ") + tag
	if strings.ContainsFunc(line, isControl) {
		return "", fmt.Errorf("crontab line of %s: %q contains a control character", j.Agent, line)
	}
	if len(line) > maxLine {
		return "", fmt.Errorf("crontab line of %s has %d bytes, and cron accepts at most %d: use shorter paths", j.Agent, len(line), maxLine)
	}
	return line, nil
}

// quote returns s as one word for sh, safe in a crontab. Each "%" and each "'" is outside the
// quotes, after a backslash. So a backslash of the path itself never precedes the "%", where it
// would undo the escape.
func quote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "%", `'\%'`).Replace(s) + "'"
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// TemporaryBinary reports whether path is below a build folder of "go run" or "go test". Such a
// program is gone when cron starts it, so it must not be installed in a crontab.
func TemporaryBinary(path string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if strings.HasPrefix(part, "go-build") {
			return true
		}
	}
	return false
}
