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

// roster keeps the agents of a listener in step with their configurations.
type roster struct {
	load  agents
	args  []string // of the command line, absolute; or the one configuration
	files map[string]entry
}

// entry is a configuration as it was last read.
type entry struct {
	text  string
	agent *cycle.Agent // nil: it is not usable
}

// newRoster returns a roster of agents that were loaded from args. before is a
// snapshot from before they were loaded, so that later changes are noticed.
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

// snapshot returns the text of each configuration that args name: files, and
// *.toml in folders. It leaves out what cannot be read.
func snapshot(args []string) map[string]string {
	texts := map[string]string{}
	for _, arg := range args {
		files := []string{arg}
		if info, err := os.Stat(arg); err == nil && info.IsDir() {
			files, _ = filepath.Glob(filepath.Join(config.QuoteGlob(arg), "*.toml")) // the pattern is right
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				texts[file] = string(text)
			}
		}
	}
	return texts
}

// reload returns the agents as they are configured now. It drops an agent whose
// configuration is gone from its folder. An agent stays as it was if its
// configuration has an error now, which is reported once, or if its file was
// named and is gone.
func (r *roster) reload() (agents []*cycle.Agent, changed bool) {
	now := snapshot(r.args)
	for file, old := range r.files {
		if _, there := now[file]; !there && !slices.Contains(r.args, file) {
			delete(r.files, file)
			changed = changed || old.agent != nil
		}
	}
	if changed { // a file may have been left out for a handle that is free now
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

// checkHandle refuses a handle that another configuration has.
func (r *roster) checkHandle(file, handle string) error {
	for other, e := range r.files {
		if other != file && e.agent != nil && e.agent.Handle == handle {
			return &config.Error{Path: file, Key: "agent.handle", Text: "@" + handle + " is in " + other + " already"}
		}
	}
	return nil
}
