package timer

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentstateloop/internal/testkit"
)

// oddNames are names of folders with the characters that units give a meaning.
var oddNames = []string{"with space", "100%", "%h", "$HOME", "${HOME}", "$$", `quo"te`, "apo'strophe", `back\slash`, `\x41`, "semi;colon", "<&>", "]]>", "ü", "#", "@", "-", ":"}

// TestFilesRefuse checks the paths that no unit can hold.
func TestFilesRefuse(t *testing.T) {
	good := Timer{Kind: Systemd, Agent: "goulard3120", Binary: "/bin/agentstateloop", Config: "/etc/a.toml", Home: "/home/u"}
	if _, err := good.Files(); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*Timer){
		func(u *Timer) { u.Agent = "../x" },
		func(u *Timer) { u.Agent = "" },
		func(u *Timer) { u.Binary = "agentstateloop" },
		func(u *Timer) { u.Config = "a.toml" },
		func(u *Timer) { u.Config = "/etc/a\n.toml" },
		func(u *Timer) { u.Config = "/etc/\x7f.toml" },
		func(u *Timer) { u.Binary = "/bin/\xff" },
		func(u *Timer) { u.Binary = "/tmp/go-build123/b001/exe/agentstateloop" },
	} {
		for _, kind := range []string{Systemd, Launchd} {
			u := good
			u.Kind = kind
			change(&u)
			if files, err := u.Files(); err == nil {
				t.Errorf("%+v: accepted: %v", u, files)
			}
		}
	}
}

// TestPlist reads the property list as XML, and checks that every path comes out as it went in.
func TestPlist(t *testing.T) {
	for _, name := range oddNames {
		u := Timer{Kind: Launchd, Agent: "goulard3120", Binary: "/opt/" + name + "/agentstateloop", Config: "/etc/" + name + "/a.toml", Home: "/Users/u"}
		files, err := u.Files()
		if err != nil || len(files) != 1 || files[0].Path != "/Users/u/Library/LaunchAgents/agentstateloop.goulard3120.plist" {
			t.Fatalf("%q: %v, %v", name, files, err)
		}
		var list struct {
			XMLName xml.Name `xml:"plist"`
			Dict    struct {
				Keys  []string `xml:"key"`
				Array struct {
					Strings []string `xml:"string"`
				} `xml:"array"`
			} `xml:"dict"`
		}
		d := xml.NewDecoder(strings.NewReader(strings.TrimSpace(files[0].Text)))
		if err := d.Decode(&list); err != nil {
			t.Fatalf("%q: %v\n%s", name, err, files[0].Text)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			t.Errorf("%q: text after the list: %v", name, err)
		}
		if want := append([]string{u.Binary, "--config", u.Config}, pollArgs[:]...); !slices.Equal(list.Dict.Array.Strings, want) {
			t.Errorf("%q: argv %q, want %q", name, list.Dict.Array.Strings, want)
		}
		for _, key := range []string{"Label", "ProgramArguments", "StartInterval", "RunAtLoad", "AbandonProcessGroup"} {
			if !slices.Contains(list.Dict.Keys, key) {
				t.Errorf("%q: the list lacks %s", name, key)
			}
		}
	}
}

// verifier returns the path of systemd-analyze, and skips the test without it.
func verifier(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatalf("systemd-analyze is required: %v", err)
		}
		t.Skip("systemd-analyze is not installed")
	}
	return path
}

// verify lets systemd read units as those of a user, and returns its complaints.
func verify(t *testing.T, files ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), verifier(t), append([]string{"verify", "--user", "--man=no"}, files...)...)
	// A user whom passwd does not list has no other home directory.
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+t.TempDir(), "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}

// TestUnitsAreValid lets systemd itself read the units. It looks for the program of ExecStart, so
// this also proves the escapes of its path.
func TestUnitsAreValid(t *testing.T) {
	verifier(t)
	home := t.TempDir()
	for _, name := range oddNames {
		dir := filepath.Join(home, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		u := Timer{Kind: Systemd, Agent: "goulard3120", Binary: filepath.Join(dir, "agentstateloop"), Config: filepath.Join(dir, "a.toml"), Home: home}
		if err := u.Write(); strings.ContainsAny(name, `\'"`) {
			if err == nil {
				t.Errorf("%q: accepted as the folder of the program", name)
			}
			u.Binary = filepath.Join(home, "agentstateloop")
		} else if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(u.Binary) // of the case before
		if err := u.Write(); err != nil {
			t.Fatal(err)
		}
		if got := verify(t, u.path(), u.service()); !strings.Contains(got, "is not executable") {
			t.Errorf("%q: without the program, systemd says %q", name, got)
		}
		if err := testkit.WriteProgram(u.Binary, "#!/bin/sh\n"); err != nil {
			t.Fatal(err)
		}
		if got := verify(t, u.path(), u.service()); got != "" {
			text, _ := os.ReadFile(u.service())
			t.Errorf("%q: systemd says %s\n%s", name, got, text)
		}
	}
}

// TestTemplateIsValid lets systemd read an instance of the template units.
func TestTemplateIsValid(t *testing.T) {
	verifier(t)
	dir := t.TempDir()
	var instances []string
	for _, f := range template("/bin/true") {
		if err := os.WriteFile(filepath.Join(dir, f.Path), []byte(f.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		instances = append(instances, filepath.Join(dir, strings.Replace(f.Path, "@", "@agent", 1)))
	}
	if got := verify(t, instances...); got != "" {
		t.Errorf("systemd says %s", got)
	}
	if text := template("/bin/true")[0].Text; !strings.Contains(text, `"%h/.config/agentstateloop/%i.toml"`) {
		t.Errorf("the configuration is missing:\n%s", text)
	}
}
