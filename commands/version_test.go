package commands

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestVersionLine checks where the version, the commit and its date come from, and the line that a
// person sees. The line ends with Go and the platform.
func TestVersionLine(t *testing.T) {
	const commit = "2d2b89f9f8d2aabbccddeeff00112233445566aa"
	stamped := func(module string, modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: module}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: "2026-11-28T18:11:54Z"}, {Key: "vcs.modified", Value: modified},
		}}
	}
	module := func(version string) *debug.BuildInfo { return &debug.BuildInfo{Main: debug.Module{Version: version}} }
	release := Build{Version: "v0.1.0", Commit: "aaaabbbbccccdddd", Date: "2026-12-01T00:00:00Z"}
	for _, test := range []struct {
		build  Build
		info   *debug.BuildInfo
		want   string
		unique bool
	}{
		{release, stamped("v0.0.9", "false"), "v0.1.0 (commit aaaabbbbcccc of 2026-12-01", true},
		{release, module("(devel)"), "v0.1.0 (commit aaaabbbbcccc of 2026-12-01", true},
		{Build{Version: "v0.1.0"}, module("(devel)"), "v0.1.0 (", true},
		{Build{}, stamped("v0.0.0-20261128181154-2d2b89f9f8d2", "false"), "v0.0.0-20261128181154-2d2b89f9f8d2 (commit 2d2b89f9f8d2 of 2026-11-28", true},
		{Build{}, stamped("v0.1.0+dirty", "true"), "v0.1.0+dirty (commit 2d2b89f9f8d2 of 2026-11-28, modified", false},
		{Build{}, stamped("", "false"), "unknown (commit 2d2b89f9f8d2 of 2026-11-28", true},
		{Build{}, module("v0.1.1-0.20261128181154-2d2b89f9f8d2"), "v0.1.1-0.20261128181154-2d2b89f9f8d2 (commit 2d2b89f9f8d2 of 2026-11-28", true},
		{Build{}, module("v0.1.0"), "v0.1.0 (", true},
		{Build{}, module("v0.1.0-rc-20260101000000"), "v0.1.0-rc-20260101000000 (", true},
		{Build{}, module("(devel)"), "(devel) (", false},
		{Build{}, nil, "unknown (", false},
	} {
		v := versionOf(test.build, test.info)
		want := "agentstateloop version " + test.want
		if !strings.HasSuffix(want, "(") {
			want += ", "
		}
		want += runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
		if got := v.line(); got != want || v.isUnique() != test.unique {
			t.Errorf("%+v, %+v:\n%s (unique: %t), want\n%s (unique: %t)", test.build, test.info, got, v.isUnique(), want, test.unique)
		}
	}
}

// TestVersionLinesDiffer checks that two builds without a known commit print different lines, with
// and without a command, as text and as JSON.
func TestVersionLinesDiffer(t *testing.T) {
	for _, args := range []string{"version", "--version", "--version poll", "-v --config agent.toml", "version --json", "--json --version poll"} {
		seen := map[string]bool{}
		for _, build := range []string{"one build", "another build"} {
			file := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(file, []byte(build), 0o700); err != nil {
				t.Fatal(err)
			}
			p := testProgram()
			p.loader.Executable = func() (string, error) { return file, nil }
			code, out := runInProcess(t, p, strings.Fields(args)...)
			if code != exitDone || !strings.Contains(out, "checksum") {
				t.Errorf("%s: exit %d\n%s", args, code, out)
			}
			seen[out] = true
		}
		if len(seen) != 2 {
			t.Errorf("%s: two builds print the same: %v", args, seen)
		}
	}
}
