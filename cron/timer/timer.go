// Package timer keeps the units that poll an agent each minute without cron: a timer and a
// service of the user's systemd, or a launchd agent (docs/protocol.md, "Timers without cron").
//
// [Timer.Files] turns an agent into the texts of the units. [Timer.Write], [Timer.Enable] and
// [Remove] change the files and run systemctl(1) or launchctl(1). A unit never changes with the
// phase of the agent, so a poll leaves it alone: the state decides whether a poll is due.
package timer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/cron"
	"agentstateloop/internal/capture"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// The service managers.
const (
	Systemd = "systemd"
	Launchd = "launchd"
)

// Native returns the service manager of this operating system, or "".
func Native() string {
	switch runtime.GOOS {
	case "linux":
		return Systemd
	case "darwin":
		return Launchd
	}
	return ""
}

// The errors that a caller may want to distinguish.
var (
	// ErrNoProgram reports that systemctl or launchctl does not exist.
	ErrNoProgram = errors.New("this machine does not have it: use cron, or keep `agentstateloop listen` running with [schedule] mode = \"none\"")

	// ErrNoBus reports that the user has no service manager that could be reached.
	ErrNoBus = errors.New("no service manager of this user is running: log in as this user (su and sudo do not start one), or `sudo loginctl enable-linger USER`; " +
		"in a container, or in WSL without systemd, use cron or keep `agentstateloop listen` running")
)

// maxOutput limits the standard output and the errors of a process, which say a few words.
const maxOutput = 16 << 10

// Write writes the units that differ from those on disk, and makes their names durable. It writes
// none if a timer of the package's template units polls already.
func (t Timer) Write() error {
	files, err := t.Files()
	if err != nil || t.packaged() != "" {
		return err
	}
	for _, f := range files {
		if err := write(f); err != nil {
			return fmt.Errorf("write the timer of %s: %w", t.Agent, err)
		}
	}
	return nil
}

// write replaces the file at once, unless it has that text already.
func write(f File) error {
	if old, err := os.ReadFile(f.Path); err == nil && string(old) == f.Text {
		return nil
	}
	dir := filepath.Dir(f.Path)
	if err := osfile.MkdirAll(dir); err != nil {
		return err
	}
	draft, err := os.CreateTemp(dir, ".agentstateloop-*")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.WriteString(f.Text)
	err = errors.Join(err, draft.Chmod(0o644), draft.Sync(), draft.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(draft.Name(), f.Path); err != nil {
		return err
	}
	return osfile.SyncDir(dir)
}

// Missing returns what keeps the timer from running, according to the files, or "": a unit that is
// missing, or a timer that is not enabled. It starts no process.
func (t Timer) Missing() string {
	if t.packaged() != "" {
		return ""
	}
	for _, path := range t.paths() {
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if t.Kind == Systemd && path == t.wantedBy() {
			return t.Name() + " is not enabled"
		}
		return path + " is missing"
	}
	return ""
}

// Changed returns the paths of the units that exist and whose text Write would change.
func (t Timer) Changed() ([]string, error) {
	files, err := t.Files()
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, f := range files {
		text, err := os.ReadFile(f.Path)
		if err == nil && string(text) != f.Text {
			changed = append(changed, f.Path)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return changed, err
		}
	}
	return changed, nil
}

// Running returns the name of the timer that polls the agent: the packaged one, if that is
// enabled, or Name.
func (t Timer) Running() string { return cmp.Or(t.packaged(), t.Name()) }

// packaged returns the name of the timer of the template units that polls with this configuration,
// if it is enabled, or "".
func (t Timer) packaged() string {
	name, ok := strings.CutSuffix(filepath.Base(t.Config), ".toml")
	if !ok || t.Kind != Systemd || filepath.Dir(t.Config) != filepath.Join(t.Home, ".config/agentstateloop") {
		return ""
	}
	instance := "agentstateloop-poll@" + name + ".timer"
	if _, err := os.Lstat(filepath.Join(t.Home, systemdFolder, wantsFolder, instance)); err != nil {
		return ""
	}
	return instance
}

// Enable makes the service manager read the written units, start the timer, and start it again
// whenever the user's service manager starts. The error wraps [ErrNoProgram] or [ErrNoBus] if
// the service manager is missing.
func (t Timer) Enable(ctx context.Context) error {
	if t.Kind == Launchd {
		domain, err := t.launchdDomain(ctx)
		if err != nil {
			return fmt.Errorf("enable the timer of %s: %w", t.Agent, err)
		}
		_, _ = t.run(ctx, "launchctl", "bootout", domain+"/"+t.Name()) // it may not be loaded
		_, err = t.run(ctx, "launchctl", "enable", domain+"/"+t.Name())
		if err == nil {
			_, err = t.run(ctx, "launchctl", "bootstrap", domain, t.path())
		}
		return enabling(t, err)
	}
	_, err := t.run(ctx, "systemctl", "--user", "daemon-reload")
	if err == nil {
		_, err = t.run(ctx, "systemctl", "--user", "enable", "--now", t.Running())
	}
	return enabling(t, err)
}

func enabling(t Timer, err error) error {
	if err != nil {
		return fmt.Errorf("enable the timer of %s: %w", t.Agent, err)
	}
	return nil
}

// Active reports whether the service manager runs the timer now.
func (t Timer) Active(ctx context.Context) (bool, error) {
	if t.Kind == Launchd {
		domain, err := t.launchdDomain(ctx)
		if err != nil {
			return false, err
		}
		_, err = t.run(ctx, "launchctl", "print", domain+"/"+t.Name())
		return exitedZero(err)
	}
	// is-active exits 3 for an inactive unit, and 4 for an unknown one.
	_, err := t.run(ctx, "systemctl", "--user", "is-active", "--quiet", t.Running())
	return exitedZero(err)
}

// exitedZero reports whether a program exited 0. An error means that it could not tell.
func exitedZero(err error) (bool, error) {
	exit, exited := errors.AsType[*exec.ExitError](err)
	if exited && exit.Exited() && !errors.Is(err, ErrNoBus) {
		return false, nil
	}
	return err == nil, err
}

// PolledBy returns what the timers of all agents in a home directory poll, according to their
// services and launchd agents. Config is "" for an agent with other files of a timer alone.
func PolledBy(home string) (all []cron.Polled) {
	for _, handle := range handles(home) {
		kinds := Timer{Agent: handle, Home: home}.kinds()
		service, _ := os.ReadFile(kinds[0].service()) // a missing file has no configuration
		list, _ := os.ReadFile(kinds[1].path())
		inService, inList := configInService(string(service)), configInList(string(list))
		if inService != "" || inList == "" {
			all = append(all, cron.Polled{Agent: handle, Config: inService})
		}
		if inList != "" {
			all = append(all, cron.Polled{Agent: handle, Config: inList})
		}
	}
	return all
}

// configInService returns the configuration in the text of a service, or "".
func configInService(text string) string {
	_, line, _ := strings.Cut("\n"+text, "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	argv := words(line)
	at := slices.Index(argv, "--config") + 1
	if at == 0 || at == len(argv) {
		return ""
	}
	return strings.NewReplacer("%%", "%", "$$", "$").Replace(argv[at])
}

// configInList returns the configuration in the property list of a launchd agent, or "".
func configInList(text string) string {
	_, rest, _ := strings.Cut(text, "<string>--config</string>")
	_, rest, _ = strings.Cut(rest, "<string>")
	config, _, _ := strings.Cut(rest, "</string>")
	return strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">").Replace(config)
}

// handles returns the handles of all agents that have a file of a timer in a home directory.
func handles(home string) (all []string) {
	for _, place := range []struct{ folder, before, after string }{
		{systemdFolder, "agentstateloop-", ".timer"}, {systemdFolder, "agentstateloop-", ".service"},
		{systemdFolder + "/timers.target.wants", "agentstateloop-", ".timer"}, {"Library/LaunchAgents", "agentstateloop.", ".plist"},
	} {
		entries, _ := os.ReadDir(filepath.Join(home, place.folder)) // a missing folder has no units
		for _, e := range entries {
			handle, ours := strings.CutPrefix(e.Name(), place.before)
			handle, whole := strings.CutSuffix(handle, place.after)
			if ours && whole && state.ValidHandle(handle) && !slices.Contains(all, handle) {
				all = append(all, handle)
			}
		}
	}
	return all
}

// Disable stops a unit of the user's systemd, and removes the link that starts it again.
func (t Timer) Disable(ctx context.Context, unit string) error {
	_, err := t.run(ctx, "systemctl", "--user", "disable", "--now", unit)
	return err
}

// kinds returns the timers that the agent may have in this home directory.
func (t Timer) kinds() [2]Timer {
	systemd, launchd := t, t
	systemd.Kind, launchd.Kind = Systemd, Launchd
	return [2]Timer{systemd, launchd}
}

// Installed returns the files of the agent's timer that exist, whatever wrote them: units and
// the link that enables them, for systemd and for launchd. Agent and Home must be set.
func (t Timer) Installed() ([]string, error) {
	var found []string
	if t.Home == "" {
		return nil, nil // a user without a home directory has no units
	}
	for _, t := range t.kinds() {
		for _, path := range t.paths() {
			if _, err := os.Lstat(path); err == nil {
				found = append(found, path)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return found, err
			}
		}
	}
	return found, nil
}

// Remove stops the agent's timer, for systemd and for launchd, removes its files, and makes the
// service manager forget them. It returns the removed files. It removes them even if the service
// manager cannot be reached; then it also returns an error. It starts no process for an agent
// without such files. Agent and Home must be set.
func (t Timer) Remove(ctx context.Context) (removed []string, err error) {
	if t.Home == "" {
		return nil, nil
	}
	for _, t := range t.kinds() {
		gone, removeErr := t.remove(ctx)
		removed, err = append(removed, gone...), errors.Join(err, removeErr)
	}
	return removed, err
}

// paths returns the paths of all files of the timer.
func (t Timer) paths() []string {
	if t.Kind == Launchd {
		return []string{t.path()}
	}
	paths := []string{t.service(), t.path(), t.wantedBy()}
	if instance := t.packaged(); instance != "" {
		paths = append(paths, filepath.Join(t.Home, systemdFolder, wantsFolder, instance))
	}
	return paths
}

func (t Timer) remove(ctx context.Context) (removed []string, err error) {
	for _, path := range t.paths() {
		if _, err := os.Lstat(path); err == nil {
			removed = append(removed, path)
		}
	}
	if len(removed) == 0 {
		return nil, nil
	}
	// systemd must know the unit to stop it, so its file is removed after that.
	stopErr := t.disable(ctx)
	for i, path := range removed {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed[:i], fmt.Errorf("remove the timer of %s: %w", t.Agent, err)
		}
	}
	if t.Kind == Systemd && stopErr == nil {
		_, stopErr = t.run(ctx, "systemctl", "--user", "daemon-reload")
		_, _ = t.run(ctx, "systemctl", "--user", "reset-failed", filepath.Base(t.service())) // it may not have failed
	}
	if stopErr != nil {
		return removed, fmt.Errorf("the files of the timer of %s were removed, but it could not be stopped: %w", t.Agent, stopErr)
	}
	return removed, nil
}

// disable stops the timer, and removes the link that starts it again.
func (t Timer) disable(ctx context.Context) error {
	if t.Kind == Systemd {
		args := []string{"--user", "disable", "--now"}
		if _, err := os.Stat(t.path()); err == nil {
			args = append(args, t.Name())
		}
		if instance := t.packaged(); instance != "" {
			args = append(args, instance)
		}
		if len(args) == 3 {
			return nil // only a link or the service was left
		}
		_, err := t.run(ctx, "systemctl", args...)
		return err
	}
	domain, err := t.launchdDomain(ctx)
	if err != nil {
		return err
	}
	if _, err := t.run(ctx, "launchctl", "print", domain+"/"+t.Name()); err != nil {
		return nil // not loaded
	}
	_, err = t.run(ctx, "launchctl", "bootout", domain+"/"+t.Name())
	return err
}

// launchdDomain returns the domain of the user's agents: the graphical session, or the
// background session of a user who is logged in by ssh only.
func (t Timer) launchdDomain(ctx context.Context) (string, error) {
	gui := "gui/" + strconv.Itoa(os.Getuid())
	_, err := t.run(ctx, "launchctl", "print", gui)
	if known, err := exitedZero(err); known || err != nil {
		return gui, err
	}
	return "user/" + strconv.Itoa(os.Getuid()), nil
}

// Environ returns the variables that a poll of the timer gets, besides HOME and the like, as
// "NAME=value": those of the user's service manager, and those of the service. An error means
// that it cannot tell; the result then has the PATH of the written units.
func (t Timer) Environ(ctx context.Context) ([]string, error) {
	own := []string{"PATH=" + Path}
	if t.Kind == Launchd {
		return own, nil
	}
	manager, err := t.run(ctx, "systemctl", "--user", "show-environment")
	if err != nil {
		return own, err
	}
	service := strings.TrimSuffix(t.Running(), ".timer") + ".service"
	set, err := t.run(ctx, "systemctl", "--user", "show", "--property=Environment", "--value", service)
	return slices.Concat(words(manager), own, words(set)), err
}

// words splits the output of systemctl, or a command line, into words. It removes the quotes: "...", or $'...' for a
// word with control characters, whose escapes other than of a quote and a backslash stay.
func words(text string) (all []string) {
	var word strings.Builder
	quote, escaped := rune(0), false
	text = strings.ReplaceAll(text, "=$'", "='")
	for _, r := range text + "\n" {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && (r == ' ' || r == '\n'):
			if word.Len() > 0 {
				all = append(all, word.String())
			}
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return all
}

// Lingers reports whether systemd keeps the user's manager, and so the timer, while the user is
// not logged in. An error means that it cannot tell.
func (t Timer) Lingers(ctx context.Context) (bool, error) {
	out, err := t.run(ctx, "loginctl", "show-user", "--property=Linger", "--value", strconv.Itoa(os.Getuid()))
	if err != nil {
		return false, err
	}
	return strings.TrimSpace(out) == "yes", nil
}

// run runs a program and returns its standard output. The error contains the beginning of its
// standard error. The program runs without a shell, in the C locale, in its own process group.
func (t Timer) run(ctx context.Context, program string, args ...string) (string, error) {
	timeout := cmp.Or(t.Timeout, 20*time.Second)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("timed out after %v", timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if folder := "/run/user/" + strconv.Itoa(os.Getuid()); os.Getenv("XDG_RUNTIME_DIR") == "" {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+folder) // as after su
		}
	}
	printed, err := capture.Run(ctx, cmd, capture.Limits{Stdout: maxOutput, Stderr: maxOutput})
	if err == nil {
		return string(printed.Stdout), nil
	}
	command := strings.Join(append([]string{program}, args...), " ")
	complaint := strings.TrimSpace(string(printed.Stderr))
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", err, ErrNoProgram)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case program != "loginctl" && noBus(complaint):
		err = fmt.Errorf("%w (%q): %w", err, complaint, ErrNoBus)
	case complaint != "":
		err = fmt.Errorf("%w: %q", err, complaint)
	}
	return "", fmt.Errorf("%s: %w", command, err)
}

// noBus recognizes the complaints of systemctl about a missing service manager.
func noBus(complaint string) bool {
	for _, words := range []string{"connect to bus", "connect to user scope bus", "not been booted with systemd", "Host is down", "No medium found"} {
		if strings.Contains(complaint, words) {
			return true
		}
	}
	return false
}
