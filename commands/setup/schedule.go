package setup

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron/timer"
	"agentstateloop/cycle"
)

// schedulePart is [schedule].
type schedulePart struct{ mode, crontab string }

func (s schedulePart) write(d *document) {
	if s.mode == "" && s.crontab == "" {
		return
	}
	d.section("schedule")
	if s.mode != "" {
		d.line("mode", s.mode, strings.Join(cycle.Modes(), " | "))
	}
	if s.crontab != "" {
		d.line("crontab", path(s.crontab), "")
	}
}

// askSchedule asks for a timer on a machine without cron that has one. A script names it by a flag.
func (in *interview) askSchedule(ctx context.Context, s *schedulePart) error {
	program := map[string]string{timer.Systemd: "systemctl", timer.Launchd: "launchctl"}[timer.Native()]
	env := in.Loader.Env("PATH")
	if s.mode != "" || s.crontab != "" || !in.Asker.CanAsk() || config.InPath("crontab", env) != "" || config.InPath(program, env) == "" {
		return nil
	}
	wanted, err := in.Asker.Confirm(ctx, "this machine has no crontab program; let a "+timer.Native()+" timer poll the agent?")
	if wanted {
		s.mode = timer.Native()
	}
	return err
}

// Reschedule returns the agent of an existing configuration with another mode in [schedule], and
// the text of that configuration. It changes one line of the text, or adds one.
func (s Setup) Reschedule(path, mode string) (*cycle.Agent, string, error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	before, err := s.Loader.Parse(path, string(old))
	if err != nil {
		return nil, "", err
	}
	text := withMode(string(old), mode)
	after, err := s.Loader.Parse(path, text)
	if err == nil {
		before.File.Schedule.Mode = mode
	}
	if err != nil || !reflect.DeepEqual(before.File, after.File) {
		return nil, "", terminal.WithHint(fmt.Errorf("%s: the line of mode in [schedule] was not found; nothing was changed", path),
			fmt.Sprintf("set mode = %q in [schedule] yourself, then run `%s init`", mode, terminal.Program))
	}
	a, errs := s.Loader.Wire(after)
	if len(errs) > 0 {
		return nil, "", errs[0]
	}
	return a, text, nil
}

// withMode returns the text of an agent.toml with the mode in [schedule]: in the place of an older
// mode, or below the first line of the table, or in a new table at the end.
func withMode(text, mode string) string {
	line := fmt.Sprintf("mode = %q", mode)
	table := regexp.MustCompile(`(?m)^[ \t]*\[[ \t]*schedule[ \t]*\][^\n]*\n?`).FindStringIndex(text)
	if table == nil {
		return strings.TrimRight(text, "\n") + "\n\n[schedule]\n" + line + "\n"
	}
	head, rest := text[:table[1]], text[table[1]:]
	body := len(rest)
	if next := regexp.MustCompile(`(?m)^[ \t]*\[`).FindStringIndex(rest); next != nil {
		body = next[0]
	}
	if old := regexp.MustCompile(`(?m)^[ \t]*mode[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*')`).FindStringIndex(rest[:body]); old != nil {
		return head + rest[:old[0]] + line + rest[old[1]:]
	}
	return strings.TrimRight(head, "\n") + "\n" + line + "\n" + rest
}

// Replace replaces the text of a configuration (0600) in one step, durably.
func Replace(path, text string) error {
	if err := replace(path, text); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}
