package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// lineCheck compares our crontab lines with those the state requires.
type lineCheck struct {
	agent    *cycle.Agent
	mode     string // of [schedule]
	table    []byte // text of the crontab
	readable bool   // whether the crontab is
	state    state.State
	err      error // of reading state
}

func (c lineCheck) run(context.Context) []Finding {
	if c.mode == cycle.ModeNone {
		return nil
	}
	return []Finding{c.finding()}
}

// install returns the repair that installs the lines the state requires. It is nil if the state
// could not be read, or records that the operator uninstalled them.
func (c lineCheck) install() *repair {
	if c.err != nil || c.state.Schedule.Removed {
		return nil
	}
	return &repair{last: true, do: func(ctx context.Context) (string, error) {
		s, err := c.agent.Reinstall(ctx)
		switch {
		case errors.Is(err, cycle.ErrBusy):
			return "", errors.New("a poll is running, which installs the line itself")
		case err != nil:
			return "", err
		case s.Schedule.Error != "":
			return "", errors.New(s.Schedule.Error)
		case s.Schedule.Removed:
			return "", nil // uninstalled meanwhile
		}
		return "installed the crontab line: " + s.Schedule.Installed, nil
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
	wanted, alarm, err := c.agent.Job(c.state).Lines()
	switch {
	case err != nil:
		return failure(name, "cron cannot run this line", err)
	case len(ours) == 0:
		return bad(Error, name, "run `agentstateloop poll` to install it", "the crontab has no line for @%s: no polls run", c.agent.Handle).by(c.install())
	case len(ours) > 1:
		return bad(Warn, name, "the next poll removes all but one", "the crontab has %[2]d lines for @%[1]s", c.agent.Handle, len(ours)).by(c.install())
	case ours[0] != wanted:
		return bad(Warn, name, "the next poll corrects it; run `agentstateloop poll` to correct it now", "is %q but should be %q", ours[0], wanted).by(c.install())
	case !slices.Equal(cron.FindAlarm(c.table, c.agent.Handle), lines(alarm)):
		return bad(Warn, name, "the next poll corrects it; run `agentstateloop poll` to correct it now",
			"%s", alarmText(cron.FindAlarm(c.table, c.agent.Handle), alarm)).by(c.install())
	case alarm != "":
		return good(name, "correct, with an alarm line, %d of at most 900 bytes: %s", len(alarm), alarm)
	}
	return good(name, "correct, %d of at most 900 bytes: %s", len(wanted), wanted)
}

// alarmText describes wrong alarm lines.
func alarmText(found []string, wanted string) string {
	there := strings.Join(found, "; ")
	switch {
	case len(found) == 0:
		return fmt.Sprintf("the alarm line is missing: %q", wanted)
	case wanted == "":
		return fmt.Sprintf("there is an alarm line that nothing needs: %q", there)
	}
	return fmt.Sprintf("the alarm line is %q but should be %q", there, wanted)
}

// lines returns a slice of the wanted line, or nil if it is "".
func lines(wanted string) []string {
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
			return bad(Warn, name, "add --if-due to it", "yours polls each time it fires, whether a poll is due or not: %s", line)
		}
		return good(name, "your own line: %s", line)
	}
	return bad(Warn, name, "* * * * * '"+c.agent.Schedule.Binary+"' --config '"+c.agent.Config+"' poll --if-due --quiet",
		`mode = "fixed" in [schedule], but your crontab has no line that polls with this configuration`)
}
