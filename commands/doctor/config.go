package doctor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"

	"agentstateloop/commands/config"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/internal/osfile"
)

// configHint is the hint for an error in the configuration that has no hint of its own.
const configHint = "fix this in the configuration; until then no polls run"

// readConfig reads the configuration into e and wires the parts without errors.
// It returns a finding for each error.
func (e *examination) readConfig() []Finding {
	const name = "config"
	if e.Missing != nil {
		return []Finding{failure(name, "run `agentstateloop init`", e.Missing)}
	}
	var found []Finding
	c, err := e.Loader.Read(e.Path)
	if err != nil {
		found = append(found, failure(name, configHint, err))
		if c, err = e.Loader.ReadLoosely(e.Path); err != nil {
			return found
		}
	}
	e.config = c
	var wrong []error
	e.agent, wrong = e.Loader.Wire(c)
	for _, err := range wrong {
		found = append(found, failure(name, configHint, err))
	}
	if f := checkConfigFile(e.Path); f.Level != OK || len(found) == 0 {
		found = append(found, f)
	}
	if e.agent != nil && config.Unproved(e.agent) {
		found = append(found, bad(Warn, "trust", `set require = "dmarc" in [trust]; use "from" only for tests`,
			`require = "from" verifies nothing: anyone who puts your address into From can run your agent`))
	}
	return found
}

// checkConfigFile checks who may write the configuration: anyone with write access can run commands
// as the user.
func checkConfigFile(path string) Finding {
	const name = "config"
	info, err := os.Stat(path)
	if err != nil {
		return failure(name, "", err)
	}
	mode := info.Mode().Perm()
	if mode&0o022 != 0 {
		return bad(Error, name, "chmod 600 "+path, "%s is writable by others (mode %04o), who can make it run programs as you", path, mode).fixedBy(makePrivate(path))
	}
	dir := filepath.Dir(path)
	if folder, err := os.Stat(dir); err == nil && folder.Mode().Perm()&0o002 != 0 && folder.Mode()&os.ModeSticky == 0 {
		return bad(Error, name, "chmod o-w "+dir,
			"%s is writable by others (mode %04o), who can replace the configuration and run programs as you", dir, folder.Mode().Perm()).fixedBy(setMode(dir, folder.Mode().Perm()&^0o002))
	}
	if mode&0o077 != 0 {
		return bad(Info, name, "chmod 600 "+path, "%s is readable by others (mode %04o)", path, mode).fixedBy(makePrivate(path))
	}
	return good(name, "%s, mode %04o", path, mode)
}

// homeCheck reports that HOME and passwd differ, or that passwd does not list the user
// (internal/account).
type homeCheck struct {
	home  string // the home directory in use
	note  string // see config.Loader.HomeNote
	user  int    // user id
	known bool   // whether passwd lists the user
}

func (c homeCheck) run(context.Context) []Finding {
	const name = "home"
	switch {
	case !c.known:
		return []Finding{bad(Info, name, `cron runs no jobs for a user without a passwd entry: keep `+"`agentstateloop listen`"+` running, with mode = "none" in [schedule]`,
			"user %d is not in passwd: ~ means HOME, %s", c.user, c.home)}
	case c.note != "":
		return []Finding{bad(Info, name, "to use a configuration elsewhere, name it with --config FILE", "%s", c.note)}
	}
	return nil
}

// environmentCheck reports the variables that a cron job gets, and those that would change the
// behavior of our line.
type environmentCheck struct {
	mode     string         // of [schedule]
	loader   *config.Loader // with the environment of a cron job
	readable bool           // whether the environment is known
	timer    bool           // a timer polls, not cron
}

func (c environmentCheck) run(context.Context) []Finding {
	const name = "environment"
	if c.mode == cycle.ModeNone || !c.readable {
		return nil
	}
	var found []Finding
	if shell := filepath.Base(c.loader.Env("SHELL")); !c.timer && !slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "busybox"}, shell) {
		found = append(found, bad(Warn, name, "set SHELL=/bin/sh above our line in the crontab", "the crontab sets SHELL=%s, which may not run our line like sh", shell))
	}
	for _, zone := range []string{"CRON_TZ", "TZ"} {
		if value := c.loader.Env(zone); value != "" && !c.timer {
			found = append(found, bad(Warn, name, "move that line below ours",
				"the crontab sets %s=%s above our line: the alarm line and an interval in hours may fire at unexpected times", zone, value))
		}
	}
	if len(found) > 0 {
		return found
	}
	home, _ := c.loader.Home()
	jobs := "cron jobs"
	if c.timer {
		jobs = "polls of the timer"
	}
	return []Finding{good(name, "%s get PATH=%s and HOME=%s; ~ in the configuration means %s", jobs, c.loader.Env("PATH"), c.loader.Env("HOME"), home)}
}

// binaryCheck compares the program that the crontab line runs with this one.
type binaryCheck struct {
	mode    string // of [schedule]
	self    string // path of this program
	pinned  string // path of the program in the crontab line; "" before the first line
	version string // of this program
}

func (c binaryCheck) run(context.Context) []Finding {
	if c.mode != cycle.ModeCrontab && !cycle.HasTimer(c.mode) {
		return nil
	}
	return []Finding{c.finding()}
}

func (c binaryCheck) finding() Finding {
	const name = "binary"
	starter := map[bool]string{true: "crontab line", false: "timer"}[c.mode == cycle.ModeCrontab]
	switch {
	case c.pinned == "" && cron.TemporaryBinary(c.self):
		return bad(Error, name, "install the program with `go install`, and use that binary", "%s is a temporary binary of `go run`: it will be gone when the %s runs it", c.self, starter)
	case c.pinned == "":
		return good(name, "the %s will run %s, version %s", starter, c.self, c.version)
	case !config.CanRun(c.pinned):
		return bad(Error, name, "restore it, or run `init` with the binary that it should use", "the %s runs %s, which is missing or not executable", starter, c.pinned)
	case !sameBinary(c.pinned, c.self):
		return bad(Warn, name, "install this binary there, or run `agentstateloop uninstall` and then `agentstateloop init` with the binary that it should use",
			"the %s runs %s (%s), but this is %s (%s)", starter, c.pinned, versionOf(c.pinned), c.self, c.version)
	}
	return good(name, "%s, version %s", c.pinned, c.version)
}

// sameBinary reports whether two paths name the same file or files with the same
// contents.
func sameBinary(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return false
	}
	if os.SameFile(infoA, infoB) {
		return true
	}
	sumA, errA := osfile.SHA256(a)
	sumB, errB := osfile.SHA256(b)
	return errA == nil && errB == nil && bytes.Equal(sumA, sumB)
}
