package doctor

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuildInfoMatchesLibrary checks that the build information of programs is that of the standard
// library, and that other files have none.
func TestBuildInfoMatchesLibrary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{self, program} {
		want, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := buildInfoOf(path)
		if got == nil || got.Main != want.Main || len(got.Settings) != len(want.Settings) || len(got.Deps) != len(want.Deps) {
			t.Errorf("%s: got %+v, want %+v", path, got, want)
		}
	}
	whole, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	mark := append([]byte{0xff}, " Go buildinf:"...)
	at := bytes.Index(whole, mark)
	fake := append(append([]byte{}, mark...), 8, 2)
	for name, data := range map[string]string{
		"a script": "#!/bin/sh\n", "empty": "", "cut before": string(whole[:at]), "cut in the header": string(whole[:at+20]),
		"cut within": string(whole[:at+40]), "marks alone": strings.Repeat(string(fake), 1000),
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := versionOf(path); got != "not a Go program" {
			t.Errorf("%s: %s", name, got)
		}
	}
	decoy := filepath.Join(t.TempDir(), "decoy") // a false mark before the real one
	if err := os.WriteFile(decoy, append(append(fake, make([]byte, 4096-len(fake))...), whole...), 0o600); err != nil {
		t.Fatal(err)
	}
	if buildInfoOf(decoy) == nil {
		t.Error("a false mark hides the build information")
	}
	if got := versionOf(filepath.Join(t.TempDir(), "none")); got != "not a Go program" {
		t.Errorf("no file: %s", got)
	}
}
