package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// Endings of the hints about a crontab that cannot be read or written: another way to poll, and the
// behavior until then (docs/design.md, "The next poll").
const (
	useFixedHint = "or set mode = \"fixed\" in [schedule] and let another program run `agentstateloop poll --if-due` every minute"
	untilFixed   = "; until then the crontab line keeps its interval (see docs/polling.md)"
)

// lostLines compares the table with the backups. It does not restore lines, because a removal may
// have been intended. It does not show the text of a line, which may contain a password.
func (c crontabCheck) lostLines() []Finding {
	const name = "crontab"
	var found []Finding
	loss, damaged := c.table.Lost(c.text)
	if n := len(loss.Lines); n > 0 {
		level, verb := Info, "lacks"
		if loss.Cut {
			level, verb = Warn, "was cut short: it lacks"
		}
		found = append(found, bad(level, name,
			fmt.Sprintf("compare with `crontab -l | diff - %[1]s`; restore with `crontab %[1]s`, then run `agentstateloop poll`; if you removed the lines yourself, delete the backup", loss.Backup),
			"the crontab %s %s (line %s) of its backup %s", verb, terminal.Count(n, "line"), ranges(loss.Lines), loss.Backup))
	}
	for _, path := range damaged {
		found = append(found, bad(Warn, name, "delete it; do not restore the crontab from it", "the backup %s is damaged", path))
	}
	for _, line := range c.lines {
		number := cron.CutLine(c.text, line)
		if line == "" || number == 0 {
			continue
		}
		found = append(found, bad(Error, name, "remove that line with `crontab -e`; the next poll installs a complete one",
			"line %d of the crontab is only the first part of our line, and cron runs it", number))
	}
	return found
}

// ranges formats numbers in ascending order as "1, 3-5".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		part := strconv.Itoa(numbers[i])
		if end > i {
			part += "-" + strconv.Itoa(numbers[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	return strings.Join(parts, ", ")
}

// crontabCheck checks that the crontab can be read and, as far as possible without writing,
// written.
type crontabCheck struct {
	mode      string // of [schedule]
	table     cron.Table
	text      []byte   // of the crontab
	err       error    // of reading text
	proc      string   // /proc
	lines     []string // the lines installed last; "" for a missing line
	lastError string   // why the last poll could not write the line; "" if it could
}

func (c crontabCheck) run(context.Context) []Finding {
	const name = "crontab"
	if cycle.HasTimer(c.mode) {
		return nil
	}
	if c.mode == cycle.ModeNone {
		return []Finding{skip(name, `mode = "none" in [schedule]: another program must run the polls`, "make sure that it does: `agentstateloop status` shows the next poll")}
	}
	if c.err != nil {
		hint := "make sure that `crontab -l` works, " + useFixedHint
		if errors.Is(c.err, cron.ErrNotAllowed) {
			hint = "ask the administrator to add you to cron.allow, " + useFixedHint
		}
		return []Finding{failure(name, hint+untilFixed, c.err)}
	}
	found := []Finding{good(name, "readable, %s", terminal.Count(strings.Count(string(c.text), "\n"), "line"))}
	if c.mode == cycle.ModeFixed {
		return found
	}
	command := cmp.Or(c.table.Command, "crontab")
	if !strings.Contains(command, "/") && config.InPath(command, cron.JobPath) == "" {
		found = append(found, bad(Error, name, "set crontab in [schedule] to the program's full path",
			"%s is not in the PATH of cron jobs (%s): polls cannot write the crontab", command, cron.JobPath))
	}
	if why := c.table.Obstacle(c.proc); why != "" {
		found = append(found, bad(Error, name, "run agentstateloop outside that container or systemd unit, "+useFixedHint+untilFixed,
			"the crontab cannot be written from here: %s", why))
	}
	found = append(found, c.lostLines()...)
	if c.lastError != "" {
		found = append(found, bad(Error, name, "fix that, then run `agentstateloop poll`"+untilFixed, "the last poll could not write its crontab line: %s", c.lastError))
	}
	return found
}

// daemonCheck looks for a running cron daemon.
type daemonCheck struct {
	mode string // of [schedule]
	proc string // /proc
}

func (c daemonCheck) run(context.Context) []Finding {
	const name = "cron"
	if c.mode == cycle.ModeNone || cycle.HasTimer(c.mode) {
		return nil
	}
	daemon, pid, known := cron.Daemon(c.proc)
	switch {
	case !known:
		return []Finding{bad(Info, name, "make sure that cron is running: `agentstateloop status` reports a missed poll", "cannot tell whether cron is running")}
	case daemon == "":
		return []Finding{bad(Error, name,
			"start it, for example with `service cron start`; in a container without cron, keep `agentstateloop listen` running, with mode = \"none\" in [schedule]",
			"cron is not running: no polls run")}
	}
	return []Finding{good(name, "%s is running, process %d", daemon, pid)}
}

// lineCheck compares our crontab lines with those the state requires.
type lineCheck struct {
	agent    *cycle.Agent
	mode     string // of [schedule]
	standby  bool   // its polls leave the crontab alone
	table    []byte // text of the crontab
	readable bool   // whether the crontab is
	state    state.State
	err      error // of reading state
}

func (c lineCheck) run(context.Context) []Finding {
	if c.mode == cycle.ModeNone || c.agent.Schedule.HasTimer() {
		return nil
	}
	return []Finding{c.finding()}
}

// install returns the repair that installs the lines the state requires.
func (c lineCheck) install() *repair { return reinstall(c.agent, c.state, c.err, "crontab line") }

// reinstall returns the repair that installs what, which starts the polls of an agent. It is nil if
// the state s could not be read, or records that the operator uninstalled it.
func reinstall(a *cycle.Agent, s state.State, err error, what string) *repair {
	if err != nil || s.Schedule.Removed {
		return nil
	}
	return &repair{last: true, do: func(ctx context.Context) (string, error) {
		s, err := a.Reinstall(ctx)
		switch {
		case errors.Is(err, cycle.ErrBusy):
			return "", errors.New("a poll is running, and will install the " + what)
		case err != nil:
			return "", err
		case s.Schedule.Error != "":
			return "", errors.New(s.Schedule.Error)
		case s.Schedule.Removed:
			return "", nil // uninstalled meanwhile
		}
		return "installed the " + what + ": " + s.Schedule.Installed, nil
	}}
}

func (c lineCheck) finding() Finding {
	const name = "line"
	if !c.readable {
		return skip(name, "the crontab could not be read", "see crontab")
	}
	if c.mode == cycle.ModeFixed {
		return c.findUserLine()
	}
	ours := cron.Find(c.table, c.agent.Handle)
	if c.state.Schedule.Removed && len(ours) == 0 {
		return bad(Warn, name, "run `agentstateloop init` to install it again", "uninstalled: no polls run")
	}
	want, alarm, err := c.agent.Job(c.state).Lines()
	switch {
	case err != nil:
		return failure(name, "cron cannot run this line", err)
	case len(ours) == 0:
		return bad(Error, name, "run `agentstateloop "+c.installer()+"` to install it", "the crontab has no line for @%s: no polls run", c.agent.Handle).fixedBy(c.install())
	case len(ours) > 1:
		return bad(Warn, name, "`agentstateloop "+c.installer()+"` removes all but one", "the crontab has %[2]d lines for @%[1]s", c.agent.Handle, len(ours)).fixedBy(c.install())
	case ours[0] != want:
		return bad(Warn, name, c.correction(), "the line is %q but should be %q", ours[0], want).fixedBy(c.install())
	case !slices.Equal(cron.FindAlarm(c.table, c.agent.Handle), linesOf(alarm)):
		return bad(Warn, name, c.correction(),
			"%s", alarmText(cron.FindAlarm(c.table, c.agent.Handle), alarm)).fixedBy(c.install())
	case alarm != "":
		return good(name, "correct, with an alarm line, %d of at most 900 bytes: %s", len(alarm), alarm)
	}
	return good(name, "correct, %d of at most 900 bytes: %s", len(want), want)
}

// installer returns the command that installs the lines.
func (c lineCheck) installer() string {
	if c.standby {
		return "init"
	}
	return "poll"
}

// correction returns the hint for wrong lines.
func (c lineCheck) correction() string {
	if c.standby {
		return "run `agentstateloop init` to correct it"
	}
	return "the next poll corrects it; run `agentstateloop poll` to correct it now"
}

// alarmText describes wrong alarm lines.
func alarmText(found []string, wanted string) string {
	there := strings.Join(found, "; ")
	switch {
	case len(found) == 0:
		return fmt.Sprintf("the alarm line is missing: %q", wanted)
	case wanted == "":
		return fmt.Sprintf("the alarm line is not needed: %q", there)
	}
	return fmt.Sprintf("the alarm line is %q but should be %q", there, wanted)
}

// linesOf returns a slice of the wanted line, or nil if it is "".
func linesOf(wanted string) []string {
	if wanted == "" {
		return nil
	}
	return []string{wanted}
}

// findUserLine looks for the line that the user maintains with mode = "fixed".
func (c lineCheck) findUserLine() Finding {
	const name = "line"
	for line := range strings.Lines(string(c.table)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || !strings.Contains(line, "poll") || !strings.Contains(line, c.agent.Config) {
			continue
		}
		if !strings.Contains(line, "--if-due") {
			return bad(Warn, name, "add --if-due to it", "your own line polls every time, even if no poll is due: %s", line)
		}
		return good(name, "your own line: %s", line)
	}
	return bad(Warn, name, "add this line: * * * * * '"+c.agent.Schedule.Binary+"' --config '"+c.agent.Config+"' poll --if-due --quiet",
		`mode = "fixed" in [schedule], but no line of your crontab polls with this configuration`)
}
