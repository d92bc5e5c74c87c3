package backup_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/backup"
	"agentstateloop/commands/config"
	"agentstateloop/cycle/archive"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// parts are the parts of an archive that a test makes.
type parts struct {
	header archive.Header
	files  map[string]string
	text   string // of agent.toml
}

const agentToml = "[agent]\nhandle = \"goulard3120\"\noperator = [\"operator@example.com\"]\n[turn]\nrunner = \"none\"\nprompts = \"prompts\"\n[schedule]\nmode = \"none\"\n"

// newParts returns the parts of a valid archive.
func newParts(t *testing.T) *parts {
	t.Helper()
	st := &store.Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}
	now := time.Now()
	s, err := st.Commit(t.Context(), now, func(s state.State, _ store.Recovery) (state.State, error) {
		return state.Step(s, []state.Event{state.Switched{On: true}}, state.Policy{}, now), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &parts{
		header: archive.Header{Handle: "goulard3120", Serial: s.Serial, Made: now.UTC(), Home: "/home/old", Config: "home/.config/agentstateloop/agent.toml", State: "home/.local/state/agentstateloop/goulard3120"},
		files:  map[string]string{"config/prompts/rules.tmpl": "Be brief.\n"}, text: agentToml,
	}
	names, err := filepath.Glob(filepath.Join(st.Dir, "*.json*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		p.files["state/"+filepath.Base(name)] = string(data)
	}
	return p
}

// write writes the archive to a file.
func (p *parts) write(t *testing.T) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "b.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := archive.NewWriter(f, p.header)
	if err != nil {
		t.Fatal(err)
	}
	p.files["agent.toml"] = p.text
	for name, text := range p.files {
		if err := w.Add(name, int64(len(text)), false, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(nil, false, nil); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// restoreIn returns a restore for a user with this home directory.
func restoreIn(home string) backup.Restore {
	return backup.Restore{Loader: &config.Loader{
		Environ:    []string{"PATH=/nowhere"},
		Account:    func() (account.Account, error) { return account.Account{Home: home, Known: true}, nil },
		Executable: os.Executable, Now: time.Now, Secrets: new(secret.Known),
	}}
}

// treeOf returns the names of the files and folders below a folder.
func treeOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestRestoreRefuses checks that a restore is refused by the reason, and leaves the home directory as
// it was.
func TestRestoreRefuses(t *testing.T) {
	const stateDir = ".local/state/agentstateloop/goulard3120"
	put := func(t *testing.T, file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, p *parts, home string, r *backup.Restore)
		want   string
	}{
		"a file that the configuration does not name": {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) { p.files["home/.bashrc"] = "rm -rf /" }, "agent.toml does not name home/.bashrc"},
		"a file below a named folder":                 {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) { p.files["config/prompts/a/b"] = "x" }, "does not name config/prompts/a/b"},
		"no template in a folder of templates":        {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) { p.files["config/prompts/.profile"] = "x" }, "does not name config/prompts/.profile"},
		"another agent's state": {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) {
			p.files["state/state.json"] = strings.Replace(p.files["state/state.json"], "goulard3120", "dorlange3120", 1)
		}, "belongs to"},
		"another agent's configuration": {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) {
			p.text = strings.Replace(p.text, "goulard3120", "dorlange3120", 1)
		}, "not whole"},
		"a newer state": {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) {
			p.files["state/state.json"] = strings.Replace(p.files["state/state.json"], `"version":1`, fmt.Sprintf(`"version":%d`, state.VersionHeld+1), 1)
		}, "written by a newer agentstateloop"},
		"no state": {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) {
			delete(p.files, "state/state.json")
			p.files["state/x"] = ""
		}, "not whole"},
		"a damaged state": {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) {
			p.files["state/state.json"] = p.files["state/state.json"][:100]
		}, "not whole"},
		"another serial": {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) { p.header.Serial++ }, "has the serial"},
		"a configuration outside the home directory": {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) { p.header.Config = "/home/bob/agent.toml" }, `"/home/bob/agent.toml", which is outside the home directory`},
		"a state outside the home directory":         {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) { p.header.State = "/srv/agent" }, `"/srv/agent", which is outside the home directory`},
		"a place that leaves the home directory":     {func(_ *testing.T, p *parts, _ string, _ *backup.Restore) { p.header.State = "home/../../bob/state" }, "outside the home directory"},
		"an existing configuration": {func(t *testing.T, _ *parts, home string, _ *backup.Restore) {
			put(t, filepath.Join(home, ".config/agentstateloop/agent.toml"), "x")
		}, "agent.toml already exists"},
		"the agent in another file": {func(t *testing.T, _ *parts, home string, _ *backup.Restore) {
			put(t, filepath.Join(home, ".config/agentstateloop/other.toml"), agentToml)
		}, "@goulard3120 already exists on this machine"},
		"an existing state": {func(t *testing.T, _ *parts, home string, _ *backup.Restore) {
			put(t, filepath.Join(home, stateDir, "state.json"), "x")
		}, "already exists and is not empty"},
		"a link in place of the state": {func(t *testing.T, _ *parts, home string, _ *backup.Restore) {
			put(t, filepath.Join(home, ".local/state/agentstateloop/x"), "x")
			if err := os.Symlink("/tmp", filepath.Join(home, stateDir)); err != nil {
				t.Fatal(err)
			}
		}, "it is a link"},
		"a file in the way": {func(t *testing.T, _ *parts, home string, _ *backup.Restore) {
			put(t, filepath.Join(home, ".config/agentstateloop/prompts/rules.tmpl"), "other")
		}, "files with other content already exist"},
		"an unwritable folder": {func(t *testing.T, _ *parts, home string, r *backup.Restore) { r.StateDir = "/proc/agent" }, "/proc"},
	} {
		t.Run(name, func(t *testing.T) {
			home, p := t.TempDir(), newParts(t)
			r := restoreIn(home)
			c.change(t, p, home, &r)
			before := treeOf(t, home)
			_, err := r.File(t.Context(), p.write(t), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want an error with %q", err, c.want)
			}
			if after := treeOf(t, home); !slices.Equal(before, after) {
				t.Errorf("it changed the home directory:\n%q\nbefore:\n%q", after, before)
			}
		})
	}
}

// TestRestoreToAnotherHome restores to another home directory, and is interrupted before.
func TestRestoreToAnotherHome(t *testing.T) {
	home, p := t.TempDir(), newParts(t)
	p.text = strings.Replace(p.text, `prompts = "prompts"`, `prompts = "/home/old/prompts"`, 1)
	p.files = map[string]string{"home/prompts/rules.tmpl": "x", "state/state.json": p.files["state/state.json"]}
	file := p.write(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := treeOf(t, home)
	if _, err := restoreIn(home).File(ended, file, nil); err == nil {
		t.Error("an interrupted restore succeeds")
	}
	if after := treeOf(t, home); !slices.Equal(before, after) {
		t.Errorf("an interrupted restore leaves %q", after)
	}
	done, err := restoreIn(home).File(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(done.Config)
	if err != nil || done.Config != filepath.Join(home, ".config/agentstateloop/agent.toml") || !strings.Contains(string(text), `prompts = "`+home+`/prompts"`) || done.Moved != 1 {
		t.Errorf("%s: %s, %v", done.Config, text, err)
	}
	if data, err := os.ReadFile(filepath.Join(home, "prompts/rules.tmpl")); string(data) != "x" {
		t.Errorf("%q, %v", data, err)
	}
	s, err := (&store.Store{Dir: filepath.Join(home, ".local/state/agentstateloop/goulard3120"), Agent: "goulard3120"}).Read()
	restored := func(l state.Line) bool { return l.What == state.WordRestored }
	if err != nil || s.Serial != p.header.Serial+1 || !slices.ContainsFunc(s.Lines, restored) {
		t.Errorf("serial %d, %v, %v", s.Serial, s.Lines, err)
	}
	if left, _ := filepath.Glob(filepath.Join(home, ".local/state/agentstateloop/*.restoring")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}
