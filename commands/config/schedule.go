package config

import (
	"path/filepath"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
)

// wireSchedule wires [schedule]. self is the path of the program for the crontab line.
func (c *Config) wireSchedule(self string) (cycle.Schedule, error) {
	s := c.File.Schedule
	if err := c.oneOf("schedule.mode", s.Mode, cycle.ModeCrontab, cycle.ModeFixed, cycle.ModeNone); err != nil {
		return cycle.Schedule{}, err
	}
	if s.Crontab == "" {
		return cycle.Schedule{}, c.At(dotted("schedule.crontab"), `remove it to use "crontab"`, "is empty")
	}
	return cycle.Schedule{
		Mode: s.Mode,
		Table: cron.Table{
			Command: c.resolveProgram(s.Crontab),
			Lock:    filepath.Join(c.stateFolder(), "crontab.lock"),
			Backup:  filepath.Join(c.stateDir(), "crontab-backups"),
		},
		Binary: self,
		Linger: time.Duration(s.Linger),
	}, nil
}
