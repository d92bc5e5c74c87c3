package commands

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// TestListen nudges the agent through the webhook. A second listener exits with
// 75. The first one exits with 0 when its context ends.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.toml")
	hook := filepath.Join(dir, "hook")
	for path, text := range map[string]string{
		config: smallConfig + "[schedule]\nmode = \"none\"\n",
		hook:   "open sesame\n",
	} {
		text = strings.Replace(text, "[turn]", "state_dir = \"state\"\n[turn]", 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener := start(t, "listen", config, "--token-file", hook)
	first, url, ok := strings.Cut(listener.first, " at ")
	if !ok || first != "listening for 1 agent" {
		listener.stop()
		t.Fatalf("printed %q, ended with %d: %s", listener.first, <-listener.code, listener.erred)
	}

	second := start(t, "listen", config)
	if code := <-second.code; code != exitBusy || !strings.Contains(second.erred.String(), "another listener is already running") {
		t.Errorf("a second listener: exit %d, %s", code, second.erred)
	}

	req, err := http.NewRequest(http.MethodPost, url+"/nudge", strings.NewReader(`{"from": "test"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer open sesame")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("the webhook answered %s, want 202", resp.Status)
	}
	listener.end(t)

	a, err := testLoader().Load(config)
	if err != nil {
		t.Fatal(err)
	}
	rung, err := a.Store.Nudges()
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Store.Read()
	if err != nil {
		t.Fatal(err)
	}
	if s.Phase != state.PREP && len(rung) == 0 {
		t.Error("the nudge was not polled, and is not in nudges/")
	}
}

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
	check := func(what, want, warning string) {
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
		if !strings.Contains(errs.String(), warning) || warning == "" && errs.Len() > 0 {
			t.Errorf("%s: warning %q, want %q", what, errs.String(), warning)
		}
		last = maps.Clone(now)
	}
	check("nothing", "a b one", "")
	write(in("c"), agent("c"))
	check("a new one", "a b c* one", "")
	write(in("b"), agent("b")+"# changed\n")
	check("a changed one", "a b* c one", "")
	write(in("b"), "handel = 1")
	check("one that is wrong", "a b c one", "unknown key outside any section; its agent keeps its settings")
	check("told once", "a b c one", "")
	write(in("d"), agent("a"))
	check("a handle twice", "a b c one", "@a is already the handle in "+in("a")+"; skipped")
	write(in("c"), agent("e"))
	check("another handle", "a b e* one", "")
	for _, file := range []string{in("a"), one} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	check("one removed, its handle free, and a named one removed", "a* b e one", "")
	write(one, agent("one"))
	check("as it was", "a b e one", "")
}

func TestListenLoopback(t *testing.T) {
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
