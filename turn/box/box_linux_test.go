package box_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/turn/box"
)

// helpers are the programs that this test binary stands in for.
func helpers() map[string]func([]string) error {
	return map[string]func([]string) error{escapesCommand: runEscapes, escapeCommand: runEscape}
}

// Each escape works outside of a box, where that can be tried, and none does inside.
func TestEscapes(t *testing.T) {
	p := newPrey(t)
	arg, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var free bytes.Buffer
	cmd := exec.Command(p.Self, escapesCommand, string(arg), "outside")
	cmd.Env, cmd.Stdin, cmd.Stdout = []string{"PATH=/usr/bin:/bin"}, bytes.NewReader(nil), &free
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, r := range parse(t, free.String()) {
		if r.Fault != "" {
			t.Errorf("outside of a box: %s: %s", r.Name, strings.TrimSpace(r.Fault))
		}
	}
	inEachWay(t, func(t *testing.T, w box.Way) {
		b := box.Box{Self: p.Self, Write: []string{p.Work}, Read: []string{p.Self}, Dir: p.Work}
		var out bytes.Buffer
		if err := b.Run(t.Context(), w, box.Program{
			Argv: []string{p.Self, escapesCommand, string(arg)}, Env: []string{"PATH=/usr/bin:/bin:" + p.Folder},
			Stdin: bytes.NewReader(nil), Stdout: &out, Stderr: &out,
		}); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		results := parse(t, out.String())
		for _, r := range results {
			if r.Fault == "" {
				t.Errorf("%s: it got out", r.Name)
			}
			t.Logf("%s: %s", r.Name, strings.TrimSpace(r.Fault))
		}
		if len(results) != len(escapes()) {
			t.Errorf("%d of %d escapes were tried", len(results), len(escapes()))
		}
		t.Logf("%d escapes were tried", len(results))
	})
	if b, err := os.ReadFile(p.Secret); err != nil || string(b) != canary {
		t.Errorf("the secret is %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(p.Work, "setuid")); err != nil {
		t.Error(err)
	}
}

func parse(t *testing.T, text string) []result {
	t.Helper()
	var results []result
	if err := json.Unmarshal([]byte(text), &results); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return results
}
