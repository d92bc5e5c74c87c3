package commands

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cycle"
)

// mode is how polls are fired, as far as is known.
func (d *patient) mode() string {
	if d.agent == nil || d.agent.Schedule.Mode == "" {
		return cycle.ModeCrontab
	}
	return d.agent.Schedule.Mode
}

func (d *patient) crontab() cron.Table {
	if d.agent == nil {
		return cron.Table{}
	}
	return d.agent.Schedule.Table
}

// readTable reads the crontab, for all checks.
func (d *patient) readTable(ctx context.Context) {
	if d.mode() != cycle.ModeNone {
		d.table, d.tableErr = d.crontab().Read(ctx)
	}
}

// meanwhile is what an agent does whose line cannot be set (DESIGN 9).
const meanwhile = "; until then polls spare the network where the line is stuck at one minute, " +
	"and where it is stuck at thirty, one poll stays and cycles each minute while the agent is engaged"

// checkCrontab says whether the table can be read, and as far as can be told
// without writing it, written.
func (d *patient) checkCrontab(context.Context) []finding {
	const check = "crontab"
	if d.mode() == cycle.ModeNone {
		return skipped(check, `[schedule] mode = "none": something else polls`, "see that it does: `agentstateloop status` shows the next poll")
	}
	fixed := `or set mode = "fixed" in [schedule], and have something else run poll --if-due each minute`
	if d.tableErr != nil {
		hint := "see that `crontab -l` works, " + fixed
		if errors.Is(d.tableErr, cron.ErrNotAllowed) {
			hint = "have the administrator put you into cron.allow, " + fixed
		}
		return []finding{failure(check, hint+meanwhile, d.tableErr)}
	}
	found := []finding{good(check, "can be read: %s", terminal.Count(strings.Count(string(d.table), "\n"), "line"))}
	if d.mode() == cycle.ModeFixed {
		return found
	}
	command := d.crontab().Command
	if command == "" {
		command = "crontab"
	}
	if !strings.Contains(command, "/") && inPath(command, cron.JobPath) == "" {
		found = append(found, finds(levelError, check, "set crontab in [schedule] to its whole path",
			"%s is not in the PATH that cron gives a job, %s: polls could not write the table", command, cron.JobPath))
	}
	if why := d.crontab().Obstacle(d.proc); why != "" {
		found = append(found, finds(levelError, check, "run agentstateloop outside of that container or unit, "+fixed+meanwhile,
			"cannot be written from here: %s", why))
	}
	if why := d.state.Schedule.Error; why != "" {
		found = append(found, finds(levelError, check, "mend that and poll once"+meanwhile, "the last poll could not set its line: %s", why))
	}
	return found
}

// checkLine compares our line with the one that the state asks for.
func (d *patient) checkLine(context.Context) []finding {
	const check = "line"
	switch {
	case d.agent == nil:
		return unknown(check)
	case d.mode() == cycle.ModeNone:
		return nil
	case d.tableErr != nil:
		return skipped(check, "the crontab could not be read", "see crontab")
	case d.mode() == cycle.ModeFixed:
		return d.checkFixedLine()
	}
	ours := cron.Find(d.table, d.agent.Handle)
	if d.state.Schedule.Removed && len(ours) == 0 {
		return []finding{finds(levelWarn, check, "`agentstateloop init` installs it again", "uninstalled: nothing polls")}
	}
	wanted, err := d.agent.Job(d.state).Line()
	if err != nil {
		return []finding{failure(check, "cron could not run it", err)}
	}
	switch {
	case len(ours) == 0:
		return []finding{finds(levelError, check, "`agentstateloop poll` installs it", "@%s has no line in the crontab: nothing polls", d.agent.Handle)}
	case len(ours) > 1:
		return []finding{finds(levelWarn, check, "the next poll keeps one", "@%s has %d lines in the crontab", d.agent.Handle, len(ours))}
	case ours[0] != wanted:
		return []finding{finds(levelWarn, check, "the next poll sets it right; `agentstateloop poll` does it now", "is %q, and should be %q", ours[0], wanted)}
	}
	return []finding{good(check, "as it should be, %d of 900 bytes: %s", len(wanted), wanted)}
}

// checkFixedLine looks for the line that the user keeps.
func (d *patient) checkFixedLine() []finding {
	for line := range strings.Lines(string(d.table)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "#") && strings.Contains(line, "poll") && strings.Contains(line, d.agent.Config) {
			if !strings.Contains(line, "--if-due") {
				return []finding{finds(levelWarn, "line", "add --if-due to it", "yours polls each time it fires, whether a poll is due or not: %s", line)}
			}
			return []finding{good("line", "yours: %s", line)}
		}
	}
	return []finding{finds(levelWarn, "line", "* * * * * '"+d.agent.Schedule.Binary+"' --config '"+d.agent.Config+"' poll --if-due --quiet",
		`[schedule] mode = "fixed", and your crontab has no line that polls with this configuration`)}
}

// checkBinary looks at the program that the line runs.
func (d *patient) checkBinary(context.Context) []finding {
	const check = "binary"
	if d.agent == nil || d.mode() != cycle.ModeCrontab {
		return nil
	}
	self, pinned := d.agent.Schedule.Binary, d.state.Schedule.Binary
	if cron.TemporaryBinary(self) && pinned == "" {
		return []finding{finds(levelError, check, "`go install` it, and run that",
			"%s is a temporary binary of go: it will be gone when cron runs it", self)}
	}
	if pinned == "" {
		return []finding{good(check, "%s, version %s, as soon as there is a line", self, version())}
	}
	if executableIn(filepath.Dir(pinned), filepath.Base(pinned)) == "" {
		return []finding{finds(levelError, check, "put it back, or poll once with the binary that cron is to run",
			"the line runs %s, which is not there, or cannot be run", pinned)}
	}
	if !sameBinary(pinned, self) {
		return []finding{finds(levelWarn, check, "install this one there; or `agentstateloop uninstall`, then `agentstateloop init` with the one you want",
			"the line runs %s (%s), and this is another one: %s (%s)", pinned, versionOf(pinned), self, version())}
	}
	return []finding{good(check, "%s, version %s", pinned, version())}
}

func sameBinary(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return false
	}
	if os.SameFile(infoA, infoB) {
		return true
	}
	sumA, errA := sumOf(a)
	sumB, errB := sumOf(b)
	return errA == nil && errB == nil && slices.Equal(sumA, sumB)
}

func sumOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return sum.Sum(nil), err
}

// versionOf reads a binary's version without running it.
func versionOf(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "no Go program"
	}
	if info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// checkEnvironment says what a job gets, and what of it would mislead ours.
func (d *patient) checkEnvironment(context.Context) []finding {
	const check = "environment"
	if d.mode() == cycle.ModeNone || d.tableErr != nil {
		return nil
	}
	var found []finding
	home, _ := d.loader.Home()
	if shell := filepath.Base(d.loader.Env("SHELL")); !slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "busybox"}, shell) {
		found = append(found, finds(levelWarn, check, "set SHELL=/bin/sh above our line in the crontab", "the crontab sets SHELL=%s, which may not read our line as sh does", shell))
	}
	for _, zone := range []string{"CRON_TZ", "TZ"} {
		if value := d.loader.Env(zone); value != "" {
			found = append(found, finds(levelWarn, check, "move that line below ours",
				"the crontab sets %s=%s above our line: intervals of hours would fire at other times than are expected", zone, value))
		}
	}
	if len(found) > 0 {
		return found
	}
	return []finding{good(check, "a job gets PATH=%s and HOME=%s; files are looked for in %s", d.jobPath, d.loader.Env("HOME"), home)}
}

// checkDaemon looks for a running cron.
func (d *patient) checkDaemon(context.Context) []finding {
	const check = "cron"
	if d.mode() == cycle.ModeNone {
		return nil
	}
	name, pid, known := cron.Daemon(d.proc)
	switch {
	case !known:
		return []finding{finds(levelInfo, check, "see that cron runs: `agentstateloop status` says when a poll did not come", "whether it runs cannot be told here")}
	case name == "":
		return []finding{finds(levelError, check,
			"start it, such as `service cron start`; in a container without it keep `agentstateloop listen` running, with [schedule] mode = \"none\"",
			"no cron runs here: nothing polls")}
	}
	return []finding{good(check, "%s runs, process %d", name, pid)}
}
