package removal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// fixture is a home directory with the files of one agent.
type fixture struct {
	t      *testing.T
	places Places
	agent  Agent
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	home := t.TempDir()
	f := &fixture{t: t, places: Places{Home: home, States: filepath.Join(home, ".local/state/agentstateloop"), Config: filepath.Join(home, ".config/agentstateloop")}}
	f.agent = f.newAgent("goulard3120")
	return f
}

// newAgent makes the files of an agent, as init and a poll do.
func (f *fixture) newAgent(handle string) Agent {
	f.t.Helper()
	a := Agent{
		Handle: handle, Config: filepath.Join(f.places.Config, handle+".toml"), StateDir: filepath.Join(f.places.States, handle),
		Workdir: filepath.Join(f.places.Home, "agents", handle), Secrets: []string{filepath.Join(f.places.Config, handle+".password")},
	}
	f.write(a.Config)
	f.write(a.Secrets[0])
	f.write(filepath.Join(a.Workdir, "notes"))
	f.commit(a.StateDir, handle)
	return a
}

// commit makes a state of an agent.
func (f *fixture) commit(dir, handle string) {
	f.t.Helper()
	st := &store.Store{Dir: dir, Agent: handle}
	_, err := st.Commit(f.t.Context(), time.Now(), func(s state.State, _ store.Recovery) (state.State, error) {
		return state.Step(s, []state.Event{state.Unscheduled{Removed: true}}, state.Policy{}, time.Now()), nil
	})
	f.check(err)
}

func (f *fixture) write(path string) {
	f.t.Helper()
	f.check(os.MkdirAll(filepath.Dir(path), 0o700))
	f.check(os.WriteFile(path, []byte("text"), 0o600))
}

func (f *fixture) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// short returns the paths of items below the home directory, each with the reason why it stays.
func (f *fixture) short(items []Item) (all []string) {
	for _, i := range items {
		text := strings.TrimPrefix(i.Path, f.places.Home+"/")
		if i.Reason != "" {
			text += ": " + strings.ReplaceAll(i.Reason, f.places.Home, "~")
		}
		all = append(all, text)
	}
	return all
}

const (
	stateOf  = ".local/state/agentstateloop/goulard3120"
	workOf   = "agents/goulard3120"
	secretOf = ".config/agentstateloop/goulard3120.password"
	configOf = ".config/agentstateloop/goulard3120.toml"
)

// TestPlan checks, for each way in which a file may not be ours, what goes and what stays. Then the
// plan is carried out: exactly these items are gone.
func TestPlan(t *testing.T) {
	usual := []string{stateOf, workOf, secretOf, configOf}
	for name, test := range map[string]struct {
		change func(f *fixture) (others []Agent)
		want   []string
		stays  []string
	}{
		"usual":         {func(*fixture) []Agent { return nil }, usual, nil},
		"another agent": {func(f *fixture) []Agent { return []Agent{f.newAgent("other3120")} }, usual, nil},
		"the workdir of another agent is inside": {func(f *fixture) []Agent {
			return []Agent{{Handle: "other3120", Workdir: filepath.Join(f.agent.Workdir, "sub")}}
		}, []string{stateOf, secretOf, configOf}, []string{workOf + ": it contains ~/agents/goulard3120/sub of @other3120"}},
		"the workdir is shared": {func(f *fixture) []Agent {
			return []Agent{{Handle: "other3120", Workdir: f.agent.Workdir}}
		}, []string{stateOf, secretOf, configOf}, []string{workOf + ": it contains ~/agents/goulard3120 of @other3120"}},
		"the workdir is a folder of the user": {func(f *fixture) []Agent {
			f.agent.Workdir = filepath.Join(f.places.Home, "project")
			f.write(filepath.Join(f.agent.Workdir, "code"))
			return nil
		}, []string{stateOf, secretOf, configOf}, []string{"project: init did not make it, and it is not empty"}},
		"the workdir is empty": {func(f *fixture) []Agent {
			f.agent.Workdir = filepath.Join(f.places.Home, "project")
			f.check(os.Mkdir(f.agent.Workdir, 0o700))
			return nil
		}, []string{stateOf, "project", secretOf, configOf}, nil},
		"the workdir is /": {func(f *fixture) []Agent { f.agent.Workdir = "/"; return nil },
			[]string{stateOf, secretOf, configOf}, []string{"/: it is your home directory, or contains it"}},
		"the workdir leads home by a link": {func(f *fixture) []Agent {
			f.check(os.RemoveAll(f.agent.Workdir))
			f.check(os.Symlink(f.places.Home, f.agent.Workdir))
			return nil
		}, []string{stateOf, secretOf, configOf}, []string{workOf + ": it is your home directory, or contains it"}},
		"the workdir is a link": {func(f *fixture) []Agent {
			f.check(os.Rename(f.agent.Workdir, filepath.Join(f.places.Home, "real")))
			f.check(os.Symlink(filepath.Join(f.places.Home, "real"), f.agent.Workdir))
			return nil
		}, usual, []string{"real: ~/agents/goulard3120 is only a link to it"}},
		"the configuration is in the workdir": {func(f *fixture) []Agent {
			f.agent.Config = filepath.Join(f.agent.Workdir, "agent.toml")
			f.write(f.agent.Config)
			return nil
		}, []string{stateOf, secretOf, workOf + "/agent.toml", workOf}, nil},
		"the state is that of another agent": {func(f *fixture) []Agent {
			f.check(os.RemoveAll(f.agent.StateDir))
			f.commit(f.agent.StateDir, "other3120")
			return nil
		}, []string{workOf, secretOf, configOf}, []string{stateOf + ": it belongs to another agent"}},
		"a leftover state without state.json": {func(f *fixture) []Agent {
			f.check(os.Remove(filepath.Join(f.agent.StateDir, "state.json")))
			return nil
		}, usual, nil},
		"a folder of the user in the place of the state": {func(f *fixture) []Agent {
			f.check(os.RemoveAll(f.agent.StateDir))
			f.write(filepath.Join(f.agent.StateDir, "mine"))
			return nil
		}, []string{workOf, secretOf, configOf}, []string{stateOf + "/mine: it is not a file of the agent, so its folder stays"}},
		"the state is in the home directory": {func(f *fixture) []Agent { f.agent.StateDir = f.places.Home; return nil },
			[]string{workOf, secretOf, configOf}, []string{"HOME: it is your home directory, or contains it"}},
		"a secret elsewhere": {func(f *fixture) []Agent {
			f.agent.Secrets = []string{filepath.Join(f.places.Home, "mine")}
			f.write(f.agent.Secrets[0])
			return nil
		}, []string{stateOf, workOf, configOf}, []string{"mine: it is not in the folder of our configurations"}},
		"a secret of two agents": {func(f *fixture) []Agent {
			other := f.newAgent("other3120")
			other.Secrets = append(other.Secrets, f.agent.Secrets[0])
			return []Agent{other}
		}, []string{stateOf, workOf, configOf}, []string{secretOf + ": @other3120 uses it, too"}},
		"a folder as secret": {func(f *fixture) []Agent { f.agent.Secrets = []string{f.places.Config}; return nil }, []string{stateOf, workOf, configOf}, nil},
		"tokens": {func(f *fixture) []Agent {
			oauth := filepath.Join(f.places.States, "oauth.d")
			for _, name := range []string{"aa.json", "aa.lock", "bb.json", "cc.json"} {
				f.write(filepath.Join(oauth, name))
			}
			f.agent.Tokens = []string{filepath.Join(oauth, "aa.json"), filepath.Join(oauth, "bb.json")}
			other := f.newAgent("other3120")
			other.Tokens = []string{filepath.Join(oauth, "bb.json"), filepath.Join(oauth, "cc.json")}
			return []Agent{other}
		}, slices.Insert(slices.Clone(usual), 2, ".local/state/agentstateloop/oauth.d/aa.json", ".local/state/agentstateloop/oauth.d/aa.lock"),
			[]string{".local/state/agentstateloop/oauth.d/bb.json: @other3120 uses it, too"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			others := test.change(f)
			plan := For(f.agent, others, f.places, false)
			stays := f.short(plan.Stays)
			for i := range stays {
				stays[i] = strings.Replace(stays[i], f.places.Home+":", "HOME:", 1)
			}
			if got := f.short(plan.Removes); !slices.Equal(got, test.want) {
				t.Errorf("goes:  %q\nwant:  %q", got, test.want)
			}
			if !slices.Equal(stays, test.stays) {
				t.Errorf("stays: %q\nwant:  %q", stays, test.stays)
			}
			if _, err := plan.Remove(); err != nil {
				t.Error(err)
			}
			for _, item := range plan.Removes {
				if _, err := os.Lstat(item.Path); err == nil {
					t.Errorf("%s was not removed", item.Path)
				}
			}
			for _, item := range plan.Stays {
				if _, err := os.Lstat(item.Path); err != nil {
					t.Errorf("%s was removed", item.Path)
				}
			}
			for _, o := range others {
				if _, err := os.Lstat(o.StateDir); o.StateDir != "" && err != nil {
					t.Errorf("the state of @%s was removed", o.Handle)
				}
			}
		})
	}
}

// TestOrder checks that the state, whose directory the configuration may name, goes before the
// configuration, and state.json last of all in it: a removal that fails there can be repeated.
func TestOrder(t *testing.T) {
	f := newFixture(t)
	plan := For(f.agent, nil, f.places, true)
	stuck := filepath.Join(f.agent.StateDir, "turns")
	f.check(os.MkdirAll(filepath.Join(stuck, "t"), 0o700))
	busy := mountOver(t, stuck)
	_, err := plan.Remove()
	if err == nil || !strings.Contains(err.Error(), f.agent.StateDir) {
		t.Errorf("a folder that cannot be removed: %v", err)
	}
	for _, path := range []string{filepath.Join(f.agent.StateDir, "state.json"), f.agent.Config} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("the next removal misses %s", path)
		}
	}
	busy()
	if _, err := For(f.agent, nil, f.places, true).Remove(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{f.places.States, f.places.Config, filepath.Join(f.places.Home, "agents")} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("the last agent leaves %s", path)
		}
	}
}

// TestFailedItemsAreNotRemoved checks, for each kind of item, that Remove returns an item whose
// removal failed as an error, and the others as removed.
func TestFailedItemsAreNotRemoved(t *testing.T) {
	for _, kind := range []Kind{State, Folder, Token, Secret, Pipe, Unit, Shared, Settings} {
		f := newFixture(t)
		good := Item{Kind: Secret, Path: f.agent.Secrets[0]}
		bad := Item{Kind: kind, Path: filepath.Join(f.places.Home, "no\x00path")}
		removed, err := Plan{Removes: []Item{good, bad}}.Remove()
		if err == nil || !strings.Contains(err.Error(), bad.Path) {
			t.Errorf("%s: the error is %v", kind, err)
		}
		if got := f.short(removed); !slices.Equal(got, []string{secretOf}) {
			t.Errorf("%s: removed %q", kind, got)
		}
	}
}
