package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/removal"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cron/timer"
	"agentstateloop/cycle/listen"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

// This file finds and removes all files of an agent, for uninstall --purge.

// paths returns the paths of the agent, as far as they are known.
func (u *uninstaller) paths() (removal.Agent, error) {
	states, err := u.loader.StateFolder()
	if err != nil {
		return removal.Agent{}, err
	}
	if u.conf == nil {
		return removal.Lost(u.handle, u.path, states), nil
	}
	return removal.Of(u.conf), nil
}

// plan returns what --purge removes, and what stays even then.
func (u *uninstaller) plan(ctx context.Context) removal.Plan {
	paths, err := u.paths()
	if err != nil {
		return removal.Plan{}
	}
	places := removal.Places{}
	places.Home, _ = u.loader.Home() // paths has succeeded with it
	places.States, _ = u.loader.StateFolder()
	if file, err := u.loader.UserFile(); err == nil {
		places.Config = filepath.Dir(file)
	}
	if st, err := u.store(); err == nil {
		paths.Pipe, _ = listen.LeftPipe(st)
	}
	paths.Units = listenerUnits(places.Home, paths.Config)
	others := u.others(ctx, paths.Config)
	return removal.For(paths, others, places, len(others) == 0 && u.isLast(ctx, places.States))
}

// others returns the paths of the other agents of this user.
func (u *uninstaller) others(ctx context.Context, own string) (all []removal.Agent) {
	for _, k := range u.loader.Known(ctx) {
		if config.SameFile(k.Path, own) {
			continue
		}
		if conf, err := u.loader.ReadLoosely(k.Path); err == nil {
			all = append(all, removal.Of(conf))
		}
	}
	return all
}

// isLast reports whether no other agent has a crontab line, a timer, or a state directory in the
// folder of all agents.
func (u *uninstaller) isLast(ctx context.Context, states string) bool {
	polled, err := u.loader.Polled(ctx)
	if err != nil || slices.ContainsFunc(polled, func(p cron.Polled) bool { return p.Agent != u.handle }) {
		return false
	}
	entries, _ := os.ReadDir(states)
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return state.ValidHandle(e.Name()) && e.Name() != u.handle })
}

// listenerUnits returns the user's systemd units that run a listener for this configuration alone:
// `listen --print-unit` printed them.
func listenerUnits(home, path string) (units []string) {
	if path == "" {
		return nil
	}
	_, words, _ := strings.Cut(timer.ExecStart([]string{name, "--config", path, "listen"}), " ")       // with any program
	files, _ := filepath.Glob(filepath.Join(config.QuoteGlob(home), ".config/systemd/user/*.service")) // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), words) {
			units = append(units, file)
		}
	}
	return units
}

// purgeAgent removes everything of the agent after the user has agreed.
func (o *uninstallOptions) purgeAgent(c *call, u *uninstaller) error {
	asker := terminal.NewAsker(c.stdin, &c.out, c.loader.Secrets)
	if !o.yes && (!asker.CanAsk() || c.json) {
		return terminal.Usagef("pass --yes to remove everything without a question; `"+name+" uninstall` lists it", "--purge asks a question, but standard input is not a terminal")
	}
	plan := u.plan(c.ctx)
	if !c.json {
		c.out.Printf("These go, with the crontab lines and the timer of @%s:\n", u.handle)
		printItems(c, plan.Removes)
		if len(plan.Stays) > 0 {
			c.out.Printf("These stay:\n")
			printItems(c, plan.Stays)
		}
	}
	if !o.yes {
		agreed, err := asker.Confirm(c.ctx, fmt.Sprintf("remove all of this of @%s (%s)?", u.handle, plain.Size(plan.Bytes())))
		if err != nil || !agreed {
			return terminal.WithHint(errors.New("nothing was removed"), "`"+name+" uninstall` removes only the crontab lines")
		}
	}
	lines, err := u.removeLines(c.ctx)
	if err != nil {
		return err
	}
	u.releaseSeat(c.ctx)
	st, err := u.store()
	if err != nil {
		return err
	}
	release, err := removal.Stop(c.ctx, st, u.agent, func(lock string) { c.out.Warn("waiting for the process that holds %s", filepath.Join(st.Dir, lock)) })
	if err != nil {
		return terminal.WithHint(err, "the crontab lines are gone, and no file was removed; run it again")
	}
	defer release()
	plan = u.plan(c.ctx) // a listener has removed its pipe, and a turn may have ended
	for _, unit := range slices.DeleteFunc(slices.Clone(plan.Removes), func(i removal.Item) bool { return i.Kind != removal.Unit }) {
		if err := u.timer().Disable(c.ctx, filepath.Base(unit.Path)); err != nil {
			c.out.Warn("%v", err)
		}
	}
	u.noteServers(c.ctx)
	c.loaded = nil // a hook process would need the state
	removed, err := plan.Remove()
	result := uninstallOutput{Agent: u.handle, Removed: lines.Removed, Units: lines.Units, Purged: itemsOutput(removed), Stays: itemsOutput(plan.Stays)}
	if err != nil {
		return terminal.WithHint(err, "the rest was removed; run it again when the cause is gone")
	}
	return c.print(result, "removed @%s: %s, %s\n", u.handle, terminal.Count(len(removed), "item"), plain.Size(plan.Bytes()))
}

// noteServers says that the servers keep the state of an agent on several hosts, and which other
// hosts it has.
func (u *uninstaller) noteServers(ctx context.Context) {
	if u.agent == nil || u.agent.Seat == nil {
		return
	}
	text := "the state of @" + u.handle + " stays in the servers"
	client, ok := u.agent.Mesh.Carrier.(*natsmesh.Client)
	if !ok {
		return
	}
	switch _, others, err := client.Hosts(ctx); {
	case err != nil:
	case len(others) == 0:
		text += ", and no other host of it was seen: nobody acts for it"
	default:
		text += ", for " + hostNames(others)
	}
	u.out.Note("note", "%s", text)
}

func hostNames(hosts []mesh.HostSeen) string {
	var names []string
	for _, h := range hosts {
		names = append(names, h.Host)
	}
	return strings.Join(names, ", ")
}
