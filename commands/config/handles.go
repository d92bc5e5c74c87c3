package config

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cron/timer"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// maxSearchedBytes is the number of bytes of a file searched for a handle. Other programs keep
// their *.toml in the same folders.
const maxSearchedBytes = 1 << 20

// Known is the path of a configuration, and the handle in it.
type Known struct{ Handle, Path string }

// Known returns the configurations of this user's agents, each once. It searches the folder of the
// default configuration, the working folder, and the user's configuration folder with the folders
// in it, and adds the configurations polled by the user's crontab or timers. It skips files that
// do not configure an agent.
func (l *Loader) Known(ctx context.Context) []Known {
	var all []Known
	for _, path := range slices.Concat(l.nearConfigs(), l.polledConfigs(ctx)) {
		all = addKnown(all, path)
	}
	return all
}

// FindHandle returns the absolute path of the configuration with that handle, which may begin with
// "@". It reads the crontab and the timers only if no searched folder has the handle (see Known). Two
// configurations with the same handle are an error that names both.
func (l *Loader) FindHandle(ctx context.Context, handle string) (string, error) {
	handle = strings.TrimPrefix(handle, "@")
	if handle == "" {
		return "", terminal.Usagef("name an agent, as in -a HANDLE", "the handle is empty")
	}
	var known []Known
	for _, places := range []func() []string{l.nearConfigs, func() []string { return l.polledConfigs(ctx) }} {
		for _, path := range places() {
			known = addKnown(known, path)
		}
		matches := slices.DeleteFunc(slices.Clone(known), func(k Known) bool { return k.Handle != handle })
		if len(matches) > 1 {
			return "", terminal.Usagef("choose one with --config FILE", "@%s is in two configurations: %s and %s", handle, matches[0].Path, matches[1].Path)
		}
		if len(matches) == 1 {
			return matches[0].Path, nil
		}
	}
	hint := cmp.Or(l.hintForInvalid(handle), hintForUnknown(handle, known))
	return "", terminal.Usagef(hint, "agent not found: @%s", handle)
}

// hintForInvalid returns the hint for a handle whose configuration has a syntax error below it, or "".
func (l *Loader) hintForInvalid(handle string) string {
	for _, path := range l.nearConfigs() {
		text, err := osfile.ReadFile(path, maxSearchedBytes)
		if err != nil {
			continue
		}
		var file struct{ Agent struct{ Handle string } }
		wrong, invalid := errors.AsType[toml.ParseError](toml.Unmarshal(text, &file))
		if !invalid {
			continue
		}
		lines := bytes.SplitAfterN(text, []byte("\n"), max(1, wrong.Position.Line))
		if toml.Unmarshal(bytes.Join(lines[:len(lines)-1], nil), &file) == nil && file.Agent.Handle == handle {
			return fmt.Sprintf("%s has this handle, but line %d is wrong: %s", path, wrong.Position.Line, plain.Line(wrong.Message))
		}
	}
	return ""
}

// hintForUnknown returns the hint for a handle without a configuration.
func hintForUnknown(handle string, known []Known) string {
	if len(known) == 0 {
		return "run `agentstateloop init` to create an agent, or name its configuration with --config FILE"
	}
	var handles []string
	for _, k := range known {
		if !slices.Contains(handles, k.Handle) {
			handles = append(handles, k.Handle)
		}
	}
	if near := terminal.Nearest(handle, handles); near != "" {
		return "did you mean @" + near + "?"
	}
	if i := slices.IndexFunc(handles, func(h string) bool { return strings.HasPrefix(h, handle) }); i >= 0 {
		return "did you mean @" + handles[i] + "?"
	}
	return fmt.Sprintf("the known agents are @%s; name any other configuration with --config FILE", strings.Join(handles, ", @"))
}

// addKnown adds a configuration unless it is already there or the file belongs to another program.
func addKnown(all []Known, path string) []Known {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil || slices.ContainsFunc(all, func(k Known) bool { return SameFile(k.Path, resolved) }) {
		return all
	}
	handle := HandleIn(path)
	if handle == "" {
		return all
	}
	return append(all, Known{handle, path})
}

// HandleIn returns the handle in a configuration, or "".
func HandleIn(path string) string {
	text, err := osfile.ReadFile(path, maxSearchedBytes)
	if err != nil {
		return ""
	}
	var file struct{ Agent struct{ Handle string } }
	if err := toml.Unmarshal(text, &file); err != nil || !state.ValidHandle(file.Agent.Handle) {
		return ""
	}
	return file.Agent.Handle
}

// SameFile reports whether two paths are equal or lead to one file.
func SameFile(a, b string) bool {
	if a == b {
		return true
	}
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// nearConfigs returns the files that may be configurations: *.toml in the folders where we look for
// a configuration, and in the folders of the user's configuration folder.
func (l *Loader) nearConfigs() []string {
	var patterns []string
	if path := l.Env("AGENTSTATELOOP_CONFIG"); path != "" {
		patterns = append(patterns, filepath.Join(QuoteGlob(filepath.Dir(path)), "*.toml"))
	}
	patterns = append(patterns, "*.toml")
	if path, err := l.UserFile(); err == nil {
		dir := QuoteGlob(filepath.Dir(path))
		patterns = append(patterns, filepath.Join(dir, "*.toml"), filepath.Join(dir, "*", "*.toml"))
	}
	var all []string
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern) // the patterns are valid
		for _, file := range files {
			if path, err := filepath.Abs(file); err == nil {
				all = append(all, path)
			}
		}
	}
	return all
}

// polledConfigs returns the configurations that the user's crontab and timers poll.
func (l *Loader) polledConfigs(ctx context.Context) (all []string) {
	polled, _ := l.Polled(ctx) // a table that cannot be read has no configurations
	for _, p := range polled {
		if p.Config != "" {
			all = append(all, p.Config)
		}
	}
	return all
}

// Polled returns what the user's crontab lines and timers poll. With an error, which is that of
// the crontab or of the home directory, it returns the others.
func (l *Loader) Polled(ctx context.Context) ([]cron.Polled, error) {
	polled, err := cron.Table{}.Polled(ctx)
	home, homeErr := l.Home()
	if homeErr == nil {
		polled = append(polled, timer.PolledBy(home)...)
	}
	return polled, errors.Join(err, homeErr)
}
