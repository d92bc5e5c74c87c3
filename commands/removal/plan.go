// Package removal decides which files of an agent `uninstall --purge` removes, and removes them.
//
// Paths come in, and a [Plan] goes out: the items to remove, in their order, and the items that
// stay, each with the reason. The plan reads the disk and changes nothing. A removal that was
// killed is planned again from the leftovers: the state directory goes before the configuration
// that names it, and state.json goes last of all in the state directory.
//
// A folder is removed only if it is ours as a whole. An item of another agent stays, and so does a
// folder that is, or contains, the home directory or a file of another agent. A link is removed,
// and its target stays.
package removal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/fleet/seat"
	"agentstateloop/state/store"
)

// Agent holds the paths of one agent, all absolute.
type Agent struct {
	Handle   string
	Config   string   // "" if the configuration is gone
	StateDir string   //
	Workdir  string   // "" unless the configuration names one
	Secrets  []string // files that the configuration names
	Tokens   []string // files with access tokens, in oauth.d
	Pipe     string   // created by a listener; "" without one
	Units    []string // systemd units of the agent's listener
}

// Of returns the paths in a configuration.
func Of(c *config.Config) Agent {
	a := Agent{
		Handle: c.File.Agent.Handle, Config: c.Path, StateDir: c.StateDir().Path, Workdir: c.Workdir(),
		Tokens: slices.Compact(slices.Sorted(maps.Values(c.Tokens()))),
	}
	for _, s := range c.SecretFiles() {
		a.Secrets = append(a.Secrets, s.Path)
	}
	return a
}

// initSecrets are the kinds of secrets that init writes next to a configuration, as HANDLE.KIND.
var initSecrets = []string{"password", "api-key", "refresh-token", "nk"}

// Lost returns the paths of an agent whose configuration is gone or cannot be read. The secrets are
// those that init would have written next to path, which may be "".
func Lost(handle, path, states string) Agent {
	a := Agent{Handle: handle, Config: path, StateDir: filepath.Join(states, handle)}
	if path != "" {
		for _, kind := range initSecrets {
			a.Secrets = append(a.Secrets, filepath.Join(filepath.Dir(path), handle+"."+kind))
		}
	}
	return a
}

// Places are the folders that all agents of the user share.
type Places struct {
	Home   string // the user's home directory
	States string // of the default state directories: ~/.local/state/agentstateloop
	Config string // ~/.config/agentstateloop
}

// Kind is the kind of an item.
type Kind string

// The kinds.
const (
	State    Kind = "state"
	Folder   Kind = "workdir"
	Token    Kind = "token"
	Secret   Kind = "secret"
	Draft    Kind = "draft" // of init
	Settings Kind = "configuration"
	Pipe     Kind = "pipe"
	Unit     Kind = "unit"
	Shared   Kind = "shared" // with all agents of the user; removed with the last
)

// Item is a file or folder of the agent. Reason explains why it stays; "" if it is removed.
type Item struct {
	Kind   Kind
	Path   string
	Bytes  int64 // of the files in it; 0 for a folder that stays, which may be very large
	Reason string

	only []string // the entries to remove from a folder that is not ours as a whole; nil: all of it
}

// Plan is the result of For.
type Plan struct {
	Removes []Item // in the order of their removal
	Stays   []Item

	empty []string // folders to remove if they are empty in the end
}

// Bytes returns the size of the items to remove.
func (p Plan) Bytes() (n int64) {
	for _, item := range p.Removes {
		n += item.Bytes
	}
	return n
}

// planner makes the plan for one agent. others are all other agents that are known.
type planner struct {
	Plan
	agent  Agent
	others []Agent
	places Places
}

// For plans the removal of an agent. last means that no other agent of the user is left: then the
// shared files go, too.
func For(a Agent, others []Agent, p Places, last bool) Plan {
	pl := planner{agent: a, others: others, places: p}
	pl.pipe()
	for _, unit := range a.Units {
		pl.file(Unit, unit, pl.usedBy(unit))
	}
	pl.state()
	inside := a.Config != "" && within(a.Workdir, a.Config)
	if !inside {
		pl.workdir()
	}
	for _, token := range a.Tokens {
		pl.token(token)
	}
	for _, secret := range a.Secrets {
		pl.secret(secret)
	}
	pl.configuration()
	if inside { // after the configuration, which names everything else
		pl.workdir()
	}
	if last {
		pl.shared()
	}
	pl.empty = append(pl.empty, filepath.Join(p.States, "oauth.d"), p.States, p.Config, filepath.Join(p.Home, "agents"))
	return pl.Plan
}

// add adds an item that exists. reason is "" if it is to be removed.
func (p *planner) add(item Item) {
	switch info, err := os.Lstat(item.Path); {
	case err != nil:
		return
	case info.Mode()&fs.ModeSymlink != 0 && item.Reason == "":
		if target, err := filepath.EvalSymlinks(item.Path); err == nil {
			p.Stays = append(p.Stays, Item{Kind: item.Kind, Path: target, Reason: item.Path + " is only a link to it"})
		}
	}
	if item.Reason != "" {
		p.Stays = append(p.Stays, item)
		return
	}
	item.Bytes = size(item.Path, item.only)
	p.Removes = append(p.Removes, item)
}

// file adds a file; a folder in its place is not ours.
func (p *planner) file(kind Kind, path, reason string) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return
	}
	p.add(Item{Kind: kind, Path: path, Reason: reason})
}

func (p *planner) pipe() {
	if p.agent.Pipe != "" {
		p.file(Pipe, p.agent.Pipe, "")
	}
}

// state adds the state directory. All of it is ours if it is the default directory and has a state
// of the agent; else only the names that we give are.
func (p *planner) state() {
	dir := p.agent.StateDir
	item := Item{Kind: State, Path: dir, Reason: p.foreign(dir)}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || item.Reason != "" {
		p.add(item)
		return
	}
	st := &store.Store{Dir: dir, Agent: p.agent.Handle}
	if _, err := st.Read(); errors.Is(err, store.ErrOtherAgent) {
		item.Reason = "it belongs to another agent"
		p.add(item)
		return
	}
	_, err := os.Lstat(st.Path("state.json"))
	if dir == filepath.Join(p.places.States, p.agent.Handle) && err == nil {
		p.add(item)
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		item.Reason = err.Error()
		p.add(item)
		return
	}
	other := ""
	item.only = []string{}
	for _, e := range entries {
		if isStateName(e.Name()) {
			item.only = append(item.only, e.Name())
		} else if other == "" {
			other = e.Name()
		}
	}
	if other == "" {
		item.only = nil
	} else {
		p.add(Item{Kind: State, Path: filepath.Join(dir, other), Reason: "it is not a file of the agent, so its folder stays"})
	}
	if other == "" || len(item.only) > 0 {
		p.add(item)
	}
}

// stateNames are the names in a state directory (docs/files.md). A file that was set aside has a dot
// and more after its name.
var stateNames = []string{
	"state.json", "message-id.key", "memory.md", "memory.d", "log", "nudges", "messages", "outbox", "sent", "quarantine", "turns",
	"heartbeat.fail", store.ModelsFile, seat.RecordFile, "roots", "crontab-backups", "listen.pipe", "state.lock", store.TurnLock, store.CycleLock,
	store.LingerLock, store.FetchLock, store.HookLock, store.SentLock, store.ListenLock, store.BackupLock, "snapshot.tmp",
}

func isStateName(name string) bool {
	month, _ := filepath.Match("history-[0-9][0-9][0-9][0-9]-[0-9][0-9].jsonl*", name) // the pattern is valid
	return month || slices.ContainsFunc(stateNames, func(ours string) bool { return name == ours || strings.HasPrefix(name, ours+".") })
}

// workdir adds the agent's folder. It is ours if it is the one that init makes by default. An empty
// folder goes, too.
func (p *planner) workdir() {
	dir := p.agent.Workdir
	if dir == "" {
		return
	}
	item := Item{Kind: Folder, Path: dir, Reason: p.foreign(dir)}
	entries, err := os.ReadDir(dir)
	if item.Reason == "" && dir != filepath.Join(p.places.Home, "agents", p.agent.Handle) && (err != nil || len(entries) > 0) {
		item.Reason = "init did not make it, and it is not empty"
	}
	p.add(item)
}

// token adds the file of an access token, and the files next to it.
func (p *planner) token(path string) {
	files, _ := filepath.Glob(config.QuoteGlob(strings.TrimSuffix(path, ".json")) + ".*") // the pattern is valid
	for _, file := range files {
		reason := ""
		for _, o := range p.others {
			if slices.Contains(o.Tokens, path) {
				reason = "@" + o.Handle + " uses it, too"
			}
		}
		p.file(Token, file, reason)
	}
}

// secret adds a secret file. It is ours if it is in our configuration folder, or has the name that
// init gives it next to the configuration.
func (p *planner) secret(path string) {
	reason := p.usedBy(path)
	named := filepath.Dir(path) == filepath.Dir(p.agent.Config) && strings.HasPrefix(filepath.Base(path), p.agent.Handle+".")
	if reason == "" && !within(p.places.Config, path) && !named {
		reason = "it is not in the folder of our configurations"
	}
	p.file(Secret, path, reason)
}

// configuration adds the configuration, and the drafts next to it that a killed init left.
func (p *planner) configuration() {
	if p.agent.Config == "" {
		return
	}
	dir := filepath.Dir(p.agent.Config)
	drafts, _ := filepath.Glob(filepath.Join(config.QuoteGlob(dir), ".init-*"))
	for _, draft := range drafts {
		p.file(Draft, draft, "")
	}
	p.file(Settings, p.agent.Config, "")
}

// shared adds the files that the agents of the user share.
func (p *planner) shared() {
	tokens, _ := filepath.Glob(filepath.Join(config.QuoteGlob(p.places.States), "oauth.d", "*"))
	for _, file := range tokens {
		if !slices.ContainsFunc(p.Removes, func(i Item) bool { return i.Path == file }) {
			p.file(Shared, file, "")
		}
	}
	mesh := Item{Kind: Shared, Path: filepath.Join(p.places.States, "mesh.d")}
	if locked(filepath.Join(mesh.Path, "mesh.lock")) {
		mesh.Reason = "`mesh serve` is running"
	}
	p.add(mesh)
	p.file(Shared, filepath.Join(p.places.States, "crontab.lock"), "")
}

// usedBy returns the reason why a file stays if another agent's configuration names it, too.
func (p *planner) usedBy(path string) string {
	for _, o := range p.others {
		for _, used := range append(slices.Clone(o.Secrets), o.Config) {
			if config.SameFile(path, used) {
				return "@" + o.Handle + " uses it, too"
			}
		}
	}
	return ""
}

// foreign returns the reason why a folder must stay: it is or contains the home directory, our
// shared folders, or a file of another agent.
func (p *planner) foreign(dir string) string {
	if within(dir, p.places.Home) {
		return "it is your home directory, or contains it"
	}
	for _, shared := range []string{p.places.States, p.places.Config} {
		if within(dir, shared) {
			return "it contains " + shared
		}
	}
	for _, o := range p.others {
		for _, path := range append(slices.Clone(o.Secrets), o.Config, o.StateDir, o.Workdir) {
			if path != "" && within(dir, path) {
				return fmt.Sprintf("it contains %s of @%s", path, o.Handle)
			}
		}
	}
	return ""
}

// within reports whether path is dir or inside it, by their names or by their real paths.
func within(dir, path string) bool {
	return dir != "" && path != "" && (below(dir, path) || below(real(dir), real(path)))
}

func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// real returns path without links, as far as it exists.
func real(path string) string {
	for rest := ""; ; {
		if found, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(found, rest)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return filepath.Join(path, rest)
		}
		path, rest = parent, filepath.Join(filepath.Base(path), rest)
	}
}

// size returns the bytes of the files at path, or of the entries only in that folder. It follows no
// link, and leaves out unreadable folders.
func size(path string, only []string) (n int64) {
	roots := []string{path}
	if only != nil {
		roots = nil
		for _, name := range only {
			roots = append(roots, filepath.Join(path, name))
		}
	}
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil
			}
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				n += info.Size()
			}
			return nil
		})
	}
	return n
}
