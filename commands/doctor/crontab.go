package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cycle"
)

// Endings of the hints about a crontab that cannot be read or written: another way to poll, and the
// behavior until then (docs/design.md, "The next poll").
const (
	useFixed  = "or set mode = \"fixed\" in [schedule] and have another program run `agentstateloop poll --if-due` each minute"
	meanwhile = "; until then the line keeps its interval: if that is one minute, polls that are not due stay off the network; " +
		"if it is longer, one poll keeps running while the agent is engaged"
)

// losses compares the table with the backups. It does not restore lines, because a removal may have
// been intended. It does not show the text of a line, which may contain a password.
func (c crontabCheck) losses() []Finding {
	const name = "crontab"
	var found []Finding
	loss, damaged := c.table.Lost(c.text)
	if n := len(loss.Lines); n > 0 {
		level, what := Info, "lacks"
		if loss.Cut {
			level, what = Warn, "was cut short: it lacks"
		}
		found = append(found, bad(level, name,
			fmt.Sprintf("compare them with `crontab -l | diff - %[1]s`; restore all with `crontab %[1]s`, and then run `agentstateloop poll`; if you removed them yourself, delete that backup", loss.Backup),
			"the table %s %s (line %s) of its backup %s", what, terminal.Count(n, "line"), ranges(loss.Lines), loss.Backup))
	}
	for _, path := range damaged {
		found = append(found, bad(Warn, name, "do not restore the table from it; delete it", "the backup %s is not as it was written", path))
	}
	for _, line := range c.lines {
		number := cron.CutLine(c.text, line)
		if line == "" || number == 0 {
			continue
		}
		found = append(found, bad(Error, name, "remove that line with `crontab -e`; the next poll installs a whole one",
			"line %d of the table is only the beginning of our line, and cron runs what is left of it", number))
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
	if c.mode == cycle.ModeNone {
		return []Finding{skip(name, `mode = "none" in [schedule]: another program must run the polls`, "make sure that it does: `agentstateloop status` shows the next poll")}
	}
	if c.err != nil {
		hint := "make sure that `crontab -l` works, " + useFixed
		if errors.Is(c.err, cron.ErrNotAllowed) {
			hint = "ask the administrator to add you to cron.allow, " + useFixed
		}
		return []Finding{failure(name, hint+meanwhile, c.err)}
	}
	found := []Finding{good(name, "readable, %s", terminal.Count(strings.Count(string(c.text), "\n"), "line"))}
	if c.mode == cycle.ModeFixed {
		return found
	}
	command := cmp.Or(c.table.Command, "crontab")
	if !strings.Contains(command, "/") && config.InPath(command, cron.JobPath) == "" {
		found = append(found, bad(Error, name, "set crontab in [schedule] to the program's full path",
			"%s is not in the PATH of cron jobs, %s: polls cannot write the crontab", command, cron.JobPath))
	}
	if why := c.table.Obstacle(c.proc); why != "" {
		found = append(found, bad(Error, name, "run agentstateloop outside that container or systemd unit, "+useFixed+meanwhile,
			"cannot be written from here: %s", why))
	}
	found = append(found, c.losses()...)
	if c.lastError != "" {
		found = append(found, bad(Error, name, "fix that, then run `agentstateloop poll`"+meanwhile, "the last poll could not write its line: %s", c.lastError))
	}
	return found
}
