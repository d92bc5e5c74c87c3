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
	*program
	args  []string // of the command line, absolute; or the one configuration
	files map[string]entry
}

// entry is a configuration as it was last read.
type entry struct {
	text  string
	agent *cycle.Agent // nil: it is none
}

// newRoster takes the agents that were wired from args. before is what snapshot
// gave before they were: what has changed since is then seen as a change.
func (p *program) newRoster(args []string, before map[string]string, agents []*cycle.Agent) *roster {
	r := &roster{program: p, args: args, files: map[string]entry{}}
	for file, text := range before {
		r.files[file] = entry{text: text}
	}
	for _, a := range agents {
		r.files[a.Config] = entry{before[a.Config], a}
	}
	return r
}

// snapshot reads the configurations that args name: files, and *.toml in
// folders. One that cannot be read is not in it.
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

// again is what listen.Listener asks. An agent whose configuration is gone from
// its folder is let go; one whose configuration is wrong now, which is told
// once, or was named and is gone, stays as it was.
func (r *roster) again() (agents []*cycle.Agent, changed bool) {
	now := snapshot(r.args)
	for file, old := range r.files {
		if _, there := now[file]; !there && !slices.Contains(r.args, file) {
			delete(r.files, file)
			changed = changed || old.agent != nil
		}
	}
	if changed { // what was left out may have been so for a handle that is free now
		maps.DeleteFunc(r.files, func(_ string, e entry) bool { return e.agent == nil })
	}
	for file, text := range now {
		old, known := r.files[file]
		if known && old.text == text {
			continue
		}
		a, err := r.loader.Load(file)
		if err == nil {
			err = r.another(file, a.Handle)
		}
		if err != nil {
			r.out.Warn("%v; %s", err, map[bool]string{true: "its agent goes on as it was", false: "left out"}[old.agent != nil])
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
		r.out.Printf("listening for %s, as configured now\n", terminal.Count(len(agents), "agent"))
	}
	return agents, changed
}

// another refuses a handle that another configuration has.
func (r *roster) another(file, handle string) error {
	for other, e := range r.files {
		if other != file && e.agent != nil && e.agent.Handle == handle {
			return &config.Error{Path: file, Key: "agent.handle", Text: "@" + handle + " is in " + other + " already"}
		}
	}
	return nil
}
