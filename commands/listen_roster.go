package commands

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// roster keeps the agents of a listener in sync with their configurations.
type roster struct {
	load  agents
	args  []string // absolute paths from the command line, or the single configuration
	files map[string]entry
}

// entry is a configuration from the last reload.
type entry struct {
	text  string
	agent *cycle.Agent // nil if the configuration is unusable
}

// newRoster returns a roster of agents that were loaded from args. before is a snapshot from
// before the load, so that later changes are noticed.
func newRoster(load agents, args []string, before map[string]string, agents []*cycle.Agent) *roster {
	r := &roster{load: load, args: args, files: map[string]entry{}}
	for file, text := range before {
		r.files[file] = entry{text: text}
	}
	for _, a := range agents {
		r.files[a.Config] = entry{before[a.Config], a}
	}
	return r
}

// snapshot returns the texts of the configurations in args: files, and *.toml in folders. It
// skips unreadable files.
func snapshot(args []string) map[string]string {
	texts := map[string]string{}
	for _, arg := range args {
		files := []string{arg}
		if info, err := os.Stat(arg); err == nil && info.IsDir() {
			files, _ = filepath.Glob(filepath.Join(config.QuoteGlob(arg), "*.toml")) // the pattern is valid
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				texts[file] = string(text)
			}
		}
	}
	return texts
}

// reload returns the agents of the current configurations. It drops an agent whose configuration
// was removed from its folder. It keeps an agent unchanged if its configuration has an error,
// which is reported once, or if its file was named as an argument and was removed.
func (r *roster) reload() (agents []*cycle.Agent, changed bool) {
	now := snapshot(r.args)
	for file, old := range r.files {
		if _, there := now[file]; !there && !slices.Contains(r.args, file) {
			delete(r.files, file)
			changed = changed || old.agent != nil
		}
	}
	if changed { // a file may have been rejected for a handle that is free now
		maps.DeleteFunc(r.files, func(_ string, e entry) bool { return e.agent == nil })
	}
	for file, text := range now {
		old, known := r.files[file]
		if known && old.text == text {
			continue
		}
		a, err := r.load.loader.Load(file)
		if err == nil {
			err = r.checkHandle(file, a.Handle)
		}
		if err != nil {
			r.load.out.Warn("%v; %s", err, map[bool]string{true: "its agent goes on as it was", false: "left out"}[old.agent != nil])
			r.files[file] = entry{text, old.agent}
			continue
		}
		r.files[file] = entry{text, a}
		changed = true
	}
	for _, e := range r.files {
		if e.agent != nil {
			agents = append(agents, e.agent)
		}
	}
	if changed {
		r.load.out.Printf("listening for %s, as configured now\n", terminal.Count(len(agents), "agent"))
	}
	return agents, changed
}

// checkHandle rejects a handle of another configuration.
func (r *roster) checkHandle(file, handle string) error {
	for other, e := range r.files {
		if other != file && e.agent != nil && e.agent.Handle == handle {
			return &config.Error{Path: file, Key: "agent.handle", Text: "@" + handle + " is in " + other + " already"}
		}
	}
	return nil
}
