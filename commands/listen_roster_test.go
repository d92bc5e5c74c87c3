package commands

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentstateloop/cycle"
)

// TestRoster: what becomes of the agents of a folder, and of one file that was
// named, as their configurations change.
func TestRoster(t *testing.T) {
	dir := t.TempDir()
	folder, one := filepath.Join(dir, "agents"), filepath.Join(dir, "one.toml")
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(folder, name+".toml") }
	agent := func(handle string) string {
		return "[agent]\nhandle = \"" + handle + "\"\noperator = [\"you@example.com\"]\n[turn]\nrunner = \"none\"\n"
	}
	write(in("a"), agent("a"))
	write(in("b"), agent("b"))
	write(one, agent("one"))

	var errs bytes.Buffer
	p := testProgram()
	p.out.Stdout, p.out.Stderr = new(bytes.Buffer), &errs
	args := []string{folder, one}
	before := snapshot(args)
	var first []*cycle.Agent
	for _, path := range args {
		found, err := p.agents().loadPath(path)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, found...)
	}
	r := newRoster(p.agents(), args, before, first)
	last := map[string]*cycle.Agent{}
	for _, a := range first {
		last[a.Handle] = a
	}
	// looks compares the agents with want; those marked * must be newly loaded.
	looks := func(what, want, told string) {
		t.Helper()
		errs.Reset()
		agents, changed := r.reload()
		var got []string
		now := map[string]*cycle.Agent{}
		for _, a := range agents {
			name := a.Handle
			if last[name] != a {
				name += "*"
			}
			got = append(got, name)
			now[a.Handle] = a
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != want || changed != (strings.Contains(want, "*") || len(now) != len(last)) {
			t.Errorf("%s: %s (changed: %v), want %s", what, text, changed, want)
		}
		if !strings.Contains(errs.String(), told) || told == "" && errs.Len() > 0 {
			t.Errorf("%s: told %q, want %q", what, errs.String(), told)
		}
		last = maps.Clone(now)
	}
	looks("nothing", "a b one", "")
	write(in("c"), agent("c"))
	looks("a new one", "a b c* one", "")
	write(in("b"), agent("b")+"# changed\n")
	looks("a changed one", "a b* c one", "")
	write(in("b"), "handel = 1")
	looks("one that is wrong", "a b c one", "unknown key outside any section; its agent goes on as it was")
	looks("told once", "a b c one", "")
	write(in("d"), agent("a"))
	looks("a handle twice", "a b c one", "@a is in "+in("a")+" already; left out")
	write(in("c"), agent("e"))
	looks("another handle", "a b e* one", "")
	for _, file := range []string{in("a"), one} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	looks("one gone, its handle free, and one that was named gone", "a* b e one", "")
	write(one, agent("one"))
	looks("as it was", "a b e one", "")
}
