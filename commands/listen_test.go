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

// TestRosterReload checks the agents of a folder, and of one file, after their configurations have
// changed.
func TestRosterReload(t *testing.T) {
	dir := t.TempDir()
	folder, one := filepath.Join(dir, "agents"), filepath.Join(dir, "one.toml")
	write := func(file, text string) { writeFile(t, file, text) }
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
		found, err := p.loadPath(path)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, found...)
	}
	r := newRoster(p, args, before, first)
	last := map[string]*cycle.Agent{}
	for _, a := range first {
		last[a.Handle] = a
	}
	// check compares the agents with want; those marked * must be newly loaded.
	check := func(change, want, warning string) {
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
			t.Errorf("%s: %s (changed: %v), want %s", change, text, changed, want)
		}
		if !strings.Contains(errs.String(), warning) || warning == "" && errs.Len() > 0 {
			t.Errorf("%s: warning %q, want %q", change, errs.String(), warning)
		}
		last = maps.Clone(now)
	}
	check("no change", "a b one", "")
	write(in("c"), agent("c"))
	check("a new one", "a b c* one", "")
	write(in("b"), agent("b")+"# changed\n")
	check("a changed one", "a b* c one", "")
	write(in("b"), "handel = 1")
	check("one that is wrong", "a b c one", "unknown key outside any section; its agent keeps its settings")
	check("the warning again", "a b c one", "")
	write(in("d"), agent("a"))
	check("two agents with one handle", "a b c one", "@a is already the handle in "+in("a")+"; skipped")
	write(in("c"), agent("e"))
	check("another handle", "a b e* one", "")
	for _, file := range []string{in("a"), one} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	check("one removed, its handle free, and a named one removed", "a* b e one", "")
	write(one, agent("one"))
	check("the first files again", "a b e one", "")
}

// TestListenLoopbackRefusesOtherAddresses checks which addresses a server of ours may listen on.
func TestListenLoopbackRefusesOtherAddresses(t *testing.T) {
	for _, bad := range []string{"", "8801", "0.0.0.0:0", ":0", "example.com:0", "192.0.2.1:0"} {
		if l, err := listenLoopback(bad); err == nil {
			l.Close()
			t.Errorf("--addr %q was taken", bad)
		}
	}
	l, err := listenLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := listenLoopback(l.Addr().String()); exitCode(err) != exitError || hintOf(err) == "" {
		t.Errorf("a port that is taken: %v", err)
	}
}
