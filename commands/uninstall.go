package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/removal"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cron/timer"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct{ purge, yes, all bool }

func uninstallCommand(p *program) *cli.Command {
	var o uninstallOptions
	return &cli.Command{
		Name:      "uninstall",
		Usage:     "remove crontab lines and timer, or all of an agent",
		ArgsUsage: "[@HANDLE]",
		Description: `Removes the agent's interval line and its alarm line from the crontab, and its
timer. All other lines stay. It lists the files that stay. Later polls do not
touch the crontab until init or transition. With @HANDLE it needs no
configuration: it finds the lines by their tag.

With --purge it also ends what runs, and removes the configuration, the secrets
next to it, the state directory with its history, and the folder that init made
for the agent. It lists all of it first and asks once; in a script, pass --yes.
What another agent uses stays, and is named. An interrupted removal can be
repeated.

With --all it removes the lines and the timers of all agents of this user, and
keeps all files.

Examples:
  agentstateloop uninstall
  agentstateloop uninstall @goulard3120 --purge
  agentstateloop uninstall --all`,
		Flags: []cli.Flag{
			switchFlag(&o.purge, "purge", "also remove configuration, secrets, state and folder"),
			switchFlag(&o.yes, "yes", "with --purge: do not ask"),
			switchFlag(&o.all, "all", "the lines and timers of all agents of this user"),
		},
		Action: p.action(0, 1, o.run),
	}
}

// itemOutput is a file or folder of an agent.
type itemOutput struct {
	Kind   removal.Kind `json:"kind"`
	Path   string       `json:"path"`
	Bytes  *int64       `json:"bytes"`  // null with a reason
	Reason *string      `json:"reason"` // why --purge does not remove it; else null
}

// uninstallOutput is the JSON output of uninstall.
type uninstallOutput struct {
	Agent   string       `json:"agent"`
	Removed bool         `json:"removed"` // there was a crontab line or a timer
	Units   []string     `json:"units"`   // removed files of the timer
	Purged  []itemOutput `json:"purged"`
	Stays   []itemOutput `json:"stays"`
	Next    *string      `json:"next"` // the command that removes what stays; null after it
}

// uninstallAllOutput is the JSON output of uninstall --all.
type uninstallAllOutput struct {
	Agents []linesOutput `json:"agents"`
}

// linesOutput are the removed lines and units of one agent.
type linesOutput struct {
	Agent   string   `json:"agent"`
	Removed bool     `json:"removed"`
	Line    bool     `json:"-"` // there was a crontab line
	Units   []string `json:"units"`
}

func (o *uninstallOptions) run(c *call) error {
	if _, boxed := relayedTurnOf(c.loader); boxed {
		_, err := c.open()
		return err
	}
	switch {
	case o.all && (o.purge || len(c.args) > 0 || c.namesAgent()):
		return terminal.Usagef("to remove the files of one agent, use `"+name+" uninstall @HANDLE --purge`", "--all names no agent, and cannot be combined with --purge")
	case o.yes && !o.purge:
		return terminal.Usagef("add --purge, or leave --yes out", "--yes answers the question of --purge")
	case o.purge && c.insideTurn():
		return coded(codeNotAllowed, terminal.WithHint(errors.New("an agent cannot remove itself in its turn"), "run it in a shell of your own"))
	case o.all:
		return o.uninstallAll(c)
	}
	u, err := c.uninstaller()
	if err != nil {
		return err
	}
	if o.purge {
		return o.purgeAgent(c, u)
	}
	lines, err := u.removeLines(c.ctx)
	if err != nil {
		return err
	}
	u.releaseSeat(c.ctx)
	plan := u.plan(c.ctx)
	return u.printUninstalled(c, lines, plan)
}

// uninstaller removes one agent.
type uninstaller struct {
	*program
	handle string
	path   string         // of the configuration; "" if it is gone
	conf   *config.Config // nil if it cannot be read
	agent  *cycle.Agent   // nil without a usable configuration
}

// uninstaller returns the uninstaller of the agent that the command line names: by @HANDLE, even
// without a configuration, or by a configuration, even a wrong one.
func (c *call) uninstaller() (*uninstaller, error) {
	u := &uninstaller{program: c.program}
	handle := strings.TrimPrefix(c.global.agent, "@")
	if word := strings.TrimPrefix(c.arg(0), "@"); word != "" {
		if c.namesAgent() && word != handle {
			return nil, terminal.Usagef("name the agent once", "@%s and another agent were named", word)
		}
		if !state.ValidHandle(word) {
			return nil, terminal.Usagef("name an agent, as in @goulard3120", "%q is not a handle", c.arg(0))
		}
		handle, c.global.agent = word, word
	}
	polled, _ := c.loader.Polled(c.ctx) // a table that cannot be read is an error when lines are removed
	if handle != "" {
		u.handle = handle
		path, err := c.loader.FindHandle(c.ctx, handle)
		switch {
		case err == nil:
			u.path = path
		case slices.ContainsFunc(c.loader.Known(c.ctx), func(k config.Known) bool { return k.Handle == handle }):
			return nil, err // two configurations have it
		default:
			u.path = unreadable(polled, handle)
			if u.path == "" && !u.leftovers(polled) {
				return nil, err
			}
		}
	} else {
		path, err := c.configPath()
		if err != nil {
			return nil, err
		}
		u.path = path
	}
	if u.path == "" {
		return u, nil
	}
	err := u.read(c)
	if err == nil && state.ValidHandle(u.conf.File.Agent.Handle) {
		u.handle = u.conf.File.Agent.Handle
		return u, nil
	}
	u.conf = nil
	for _, p := range polled {
		if u.handle == "" && p.Config == u.path {
			u.handle = p.Agent
		}
	}
	if u.handle == "" {
		if err == nil {
			_, err = c.loader.Load(u.path)
		}
		return nil, terminal.WithHint(err, "name the agent by its handle: `"+name+" uninstall @HANDLE`")
	}
	if _, statErr := os.Lstat(u.path); errors.Is(statErr, fs.ErrNotExist) {
		u.path = ""
	}
	return u, nil
}

// read reads the configuration, as far as it can be used.
func (u *uninstaller) read(c *call) error {
	conf, err := c.loader.ReadLoosely(u.path)
	if err != nil {
		return err
	}
	u.conf = conf
	if a, err := c.loader.Load(u.path); err == nil {
		u.agent = a
		c.loaded = append(c.loaded, a)
	}
	return nil
}

// unreadable returns the configuration that the lines or timers of a handle poll, if it exists but is not
// valid TOML, or "".
func unreadable(polled []cron.Polled, handle string) string {
	for _, p := range polled {
		if p.Agent != handle || p.Config == "" {
			continue
		}
		if info, err := os.Stat(p.Config); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if config.HandleIn(p.Config) == "" {
			return p.Config
		}
	}
	return ""
}

// isPolled reports whether lines or timers poll the agent.
func (u *uninstaller) isPolled(polled []cron.Polled) bool {
	return slices.ContainsFunc(polled, func(p cron.Polled) bool { return p.Agent == u.handle })
}

// leftovers reports whether anything of an agent without a configuration is left.
func (u *uninstaller) leftovers(polled []cron.Polled) bool {
	if u.isPolled(polled) {
		return true
	}
	states, err := u.loader.StateFolder()
	if err != nil {
		return false
	}
	_, err = os.Lstat(filepath.Join(states, u.handle))
	return err == nil
}

// timer returns the timer of the agent, known by its handle.
func (u *uninstaller) timer() timer.Timer {
	home, err := u.loader.Home()
	if err != nil {
		home = "/" // has no units
	}
	return timer.Timer{Agent: u.handle, Home: home, Config: u.path}
}

// store returns the agent's state directory.
func (u *uninstaller) store() (*store.Store, error) {
	if u.agent != nil {
		return u.agent.Store, nil
	}
	paths, err := u.paths()
	return &store.Store{Dir: paths.StateDir, Agent: u.handle}, err
}

// removeLines removes the crontab lines and the timer. It finds them by the handle if the
// configuration cannot be used, or the state cannot be written.
func (u *uninstaller) removeLines(ctx context.Context) (linesOutput, error) {
	removed := linesOutput{Agent: u.handle, Units: []string{}}
	change, units, err := cron.Change{}, []string(nil), errors.New("without a configuration")
	if u.agent != nil {
		change, units, err = u.agent.Uninstall(ctx)
	}
	if err != nil && len(units) == 0 && !change.Wrote {
		unrecorded := err
		if change, err = u.removeTagged(ctx); err != nil {
			return removed, err
		}
		if u.agent != nil {
			u.out.Warn("the next poll may install the line again: the removal could not be recorded: %v", unrecorded)
		}
	}
	more, timerErr := u.timer().Remove(ctx)
	removed.Units = append(append(removed.Units, units...), more...)
	removed.Line, removed.Removed = change.Wrote, change.Wrote || len(removed.Units) > 0
	if err = errors.Join(err, timerErr); err != nil && len(removed.Units) == 0 {
		return removed, err
	}
	forgetMissing(u.loader, u.handle)
	forgetTrouble(u.loader, u.handle)
	if err != nil {
		u.out.Warn("%v", err)
	}
	return removed, nil
}

// releaseSeat releases the seat of an agent on several hosts if it is here, so that another host acts
// at its next poll. A failure costs only time: that host then acts when the lease is over.
func (u *uninstaller) releaseSeat(ctx context.Context) {
	if u.agent == nil || u.agent.Seat == nil || u.agent.Seat.Here() != nil {
		return
	}
	if err := u.agent.Seat.Release(ctx); err != nil {
		u.out.Warn("the seat was not released, so another host acts only when the lease of %s is over: %v", terminal.Short(u.agent.Seat.Lease), err)
		return
	}
	u.out.Note("note", "released the seat of @%s: another host acts at its next poll", u.handle)
}

// removeTagged removes the crontab lines by their tag. A table without them is not touched. The
// backup of the table is in the state directory, or else in a temporary folder that stays only if
// the table could not be written.
func (u *uninstaller) removeTagged(ctx context.Context) (cron.Change, error) {
	paths, err := u.paths()
	if err != nil {
		return cron.Change{}, err
	}
	states, err := u.loader.StateFolder()
	if err != nil {
		return cron.Change{}, err
	}
	table := cron.Table{Lock: filepath.Join(states, "crontab.lock"), Backup: filepath.Join(paths.StateDir, "crontab-backups")}
	if u.conf != nil && u.conf.File.Schedule.Crontab != "" {
		table.Command = u.conf.ResolveProgram(u.conf.File.Schedule.Crontab)
	}
	polled, err := table.Polled(ctx)
	if err != nil || !u.isPolled(polled) {
		return cron.Change{}, err
	}
	_, statErr := os.Stat(states)
	if _, err := os.Stat(paths.StateDir); err != nil {
		if table.Backup, err = os.MkdirTemp("", name+"-crontab-"); err != nil {
			return cron.Change{}, err
		}
	}
	change, err := table.Remove(ctx, u.handle)
	if err == nil && !strings.HasPrefix(table.Backup, paths.StateDir) {
		err = os.RemoveAll(table.Backup)
	}
	if errors.Is(statErr, fs.ErrNotExist) { // the lock made the folder
		_ = os.Remove(table.Lock)
		_ = os.Remove(states)
	}
	return change, err
}

// printUninstalled prints what was removed, and what stays.
func (u *uninstaller) printUninstalled(c *call, lines linesOutput, plan removal.Plan) error {
	result := uninstallOutput{Agent: u.handle, Removed: lines.Removed, Units: lines.Units, Purged: []itemOutput{}, Stays: itemsOutput(slices.Concat(plan.Removes, plan.Stays))}
	next := name + " uninstall @" + u.handle + " --purge"
	if u.path != "" {
		next = c.programFor(u.path) + " uninstall --purge"
	}
	if len(plan.Removes) > 0 {
		result.Next = &next
	}
	if c.json {
		return c.out.JSON(result)
	}
	again := ""
	if u.agent != nil {
		again = fmt.Sprintf("; `%s init` installs it again", name)
	}
	switch {
	case lines.Line && len(lines.Units) > 0:
		c.out.Printf("removed the timer and the crontab line of @%s\n", u.handle)
	case len(lines.Units) > 0:
		c.out.Printf("removed the timer of @%s%s\n", u.handle, again)
	case lines.Line:
		c.out.Printf("removed the crontab line of @%s%s\n", u.handle, again)
	case u.agent != nil && u.agent.Schedule.HasTimer():
		c.out.Printf("@%s had no timer\n", u.handle)
	default:
		c.out.Printf("@%s had no crontab line\n", u.handle)
	}
	if len(result.Stays) == 0 {
		return nil
	}
	c.out.Printf("\nThese stay:\n")
	printItems(c, plan.Removes)
	printItems(c, plan.Stays)
	if result.Next != nil {
		c.out.Printf("\nTo remove them: `%s`\n", next)
	}
	return nil
}

// printItems prints items as a table. An item that stays has its reason and the command that
// removes it below.
func printItems(c *call, items []removal.Item) {
	for _, i := range items {
		size := ""
		if i.Reason == "" {
			size = plain.Size(i.Bytes)
		}
		c.out.Printf("  %-13s  %9s  %s\n", i.Kind, size, i.Path)
		if i.Reason != "" {
			c.out.Printf("    not removed by --purge: %s; to remove it: `rm -rf %s`\n", i.Reason, quotedForShell(i.Path))
		}
	}
}

func itemsOutput(items []removal.Item) []itemOutput {
	all := []itemOutput{}
	for _, i := range items {
		item := itemOutput{Kind: i.Kind, Path: i.Path, Reason: orNull(i.Reason)}
		if i.Reason == "" {
			item.Bytes = &i.Bytes
		}
		all = append(all, item)
	}
	return all
}

// quotedForShell returns a path as one word for sh.
func quotedForShell(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool { return !strings.ContainsRune("/._-+@:,=~", r) && !isLetterOrDigit(r) }) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func isLetterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// uninstallAll removes the lines and the timers of every agent of this user, with or without a
// configuration. A package calls it for each user before it removes the program.
func (o *uninstallOptions) uninstallAll(c *call) error {
	handles := map[string]bool{}
	for _, k := range c.loader.Known(c.ctx) {
		conf, err := c.loader.ReadLoosely(k.Path)
		if err == nil && conf.File.Schedule.Crontab != "crontab" { // its lines are in another table
			handles[k.Handle] = true
		}
	}
	polled, err := c.loader.Polled(c.ctx)
	if err != nil {
		return err
	}
	for _, p := range polled {
		handles[p.Agent] = true
	}
	result := uninstallAllOutput{Agents: []linesOutput{}}
	var failed error
	for _, handle := range slices.Sorted(maps.Keys(handles)) {
		u := &uninstaller{program: c.program, handle: handle}
		if path, err := c.loader.FindHandle(c.ctx, handle); err == nil {
			u.path = path
			_ = u.read(c) // the handle is enough
		}
		lines, err := u.removeLines(c.ctx)
		failed = errors.Join(failed, err)
		if lines.Removed {
			result.Agents = append(result.Agents, lines)
		}
	}
	if failed != nil {
		return failed
	}
	if c.json {
		return c.out.JSON(result)
	}
	for _, lines := range result.Agents {
		c.out.Printf("removed the crontab lines and the timer of @%s\n", lines.Agent)
	}
	if len(result.Agents) == 0 {
		c.out.Printf("no agent of this user has a crontab line or a timer\n")
	}
	return nil
}
