package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
)

// orphanPatience is how long the configuration of a crontab line may be missing before the line
// removes itself. Programs that manage configurations, and editors, replace a file in less.
const orphanPatience = 24 * time.Hour

// orphan is the poll of a crontab line or a timer whose configuration is missing. It is started
// again and again, so it must not fail each time
// (docs/decisions/0033-crontab-lines-and-prompt-times.md):
//
//   - It reports the file and `uninstall @HANDLE` once a day. The other polls are silent.
//   - It removes its own lines when the file has been missing for a day, in a folder that can be
//     read and has other files. A folder that is missing or empty may be a disk that is not
//     mounted: then the line stays.
//
// Without the folder of the mark each poll reports, because it may be on the same disk.
type orphan struct {
	*call
	dailyMark    // about the path
	handle, path string
}

// withoutConfig returns the error of a poll that could not load its configuration, for err. It is
// err itself unless the configuration of a crontab line is missing.
func (o *pollOptions) withoutConfig(c *call, err error) error {
	wrong, ok := errors.AsType[*config.Error](err)
	if !ok || !o.quiet || !o.ifDue {
		return err
	}
	if _, statErr := os.Lstat(wrong.Path); !errors.Is(statErr, fs.ErrNotExist) {
		return err
	}
	handle := c.polls(wrong.Path)
	mark, markErr := missingMark(c.loader, handle)
	if handle == "" || markErr != nil {
		return err
	}
	orphan := orphan{call: c, dailyMark: dailyMark{mark, wrong.Path}, handle: handle, path: wrong.Path}
	return orphan.report(err)
}

// polls returns the handle of the crontab line or the timer that polls a configuration, or "".
func (c *call) polls(path string) (handle string) {
	polled, _ := c.loader.Polled(c.ctx) // without a crontab there may be a timer
	for _, p := range polled {
		if p.Config == path {
			return p.Agent
		}
	}
	return ""
}

// missingMark returns the path of the mark of an agent.
func missingMark(l *config.Loader, handle string) (string, error) {
	states, err := l.StateFolder()
	return filepath.Join(states, ".missing-"+handle), err
}

// forgetMissing removes the mark of an agent. The configuration is there again, or the lines that
// poll it are gone.
func forgetMissing(l *config.Loader, handle string) {
	if mark, err := missingMark(l, handle); err == nil {
		_ = os.Remove(mark) // there is rarely one
	}
}

// report returns the error of this poll: one with a text once a day, and when the line was removed.
func (o orphan) report(err error) error {
	remedy := fmt.Sprintf("restore the file, or run `%s uninstall @%s` to remove what polls it", name, o.handle)
	now := o.now()
	first, last, known := o.read(now)
	switch {
	case !known:
		first, last = now, now
		if !o.write(first, last) {
			return terminal.WithHint(err, remedy)
		}
	case isDayOld(first, now) && o.deleted():
		u := &uninstaller{program: o.program, handle: o.handle}
		if _, removeErr := u.removeLines(o.ctx); removeErr != nil {
			return terminal.WithHint(errors.Join(err, removeErr), remedy)
		}
		return terminal.Usagef(fmt.Sprintf("`%s uninstall @%s --purge` removes the state, too; `%[1]s init` sets the agent up again", name, o.handle),
			"%s has been missing since %s: the crontab line or timer of @%s was removed", o.path, first.UTC().Format(time.RFC3339), o.handle)
	case !isDayOld(last, now):
		return silentError{&config.Error{Path: o.path, Text: "not found"}} // without a hint
	case !o.write(first, now):
		return terminal.WithHint(err, remedy)
	}
	return terminal.WithHint(err, remedy+"; this is reported once a day")
}

// deleted reports whether the file is missing in a folder that is there: it can be read, and has
// other files.
func (o orphan) deleted() bool {
	entries, err := os.ReadDir(filepath.Dir(o.path))
	return err == nil && len(entries) > 0
}
