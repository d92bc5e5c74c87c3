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
