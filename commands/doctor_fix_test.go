package commands

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agentstateloop/internal/testkit/crontest"
)

// TestFixLeavesForeignFilesAlone runs doctor --fix as root for an agent whose files
// belong, in whole or in part, to another user. No mode, owner or byte of those may change, and no
// file of root may appear among them.
func TestFixLeavesForeignFilesAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv(requireReal) != "" {
			t.Fatal("only root can give files to another user")
		}
		t.Skip("only root can give files to another user")
	}
	const other = 54321
	for name, c := range map[string]struct {
		theirs  []string
		refused bool
	}{
		"all of it":             {[]string{".", "agent.toml", "secret", "state", "state/state.json", "state/message-id.key"}, true},
		"the configuration":     {[]string{"agent.toml"}, true},
		"the state directory":   {[]string{"state"}, true},
		"one file of the state": {[]string{"state/message-id.key"}, true},
		"the secret":            {[]string{"secret"}, false},
		"the parent folder":     {[]string{"."}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			command, table, err := crontest.Write(dir)
			if err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{
				"agent.toml": fmt.Sprintf("[agent]\nhandle = \"g1\"\nstate_dir = \"state\"\n[turn]\ncommand = [\"/bin/cat\"]\nworkdir = \"missing\"\n[schedule]\ncrontab = %q\n"+
					"[mesh]\nurl = \"http://127.0.0.1:1\"\ntoken_file = \"secret\"\n", command),
				"secret": "hunter2-and-more\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			run := func(args ...string) (int, string) {
				return runInProcess(t, testProgram(), append([]string{"--config", filepath.Join(dir, "agent.toml")}, args...)...)
			}
			if code, output := run("poll"); code != exitDone && code != exitSource {
				t.Fatal(code, output)
			}
			for _, change := range []error{
				os.Remove(table), os.Remove(filepath.Join(dir, "state", "nudges")),
				os.Chmod(filepath.Join(dir, "state"), 0o755), os.Chmod(filepath.Join(dir, "state/message-id.key"), 0o644), os.Chmod(dir, 0o777),
			} {
				if change != nil {
					t.Fatal(change)
				}
			}
			for _, file := range c.theirs {
				if err := os.Chown(filepath.Join(dir, file), other, other); err != nil {
					t.Fatal(err)
				}
			}
			before := fileTree(t, dir)
			code, output := run("doctor", "--fix", "--no-network")
			after := fileTree(t, dir)
			if refused := code == exitError && strings.Contains(output, "nothing was fixed"); refused != c.refused {
				t.Errorf("exit %d, refused is %v: %s", code, refused, output)
			}
			for file, is := range before {
				if (c.refused || strings.HasPrefix(is, "54321 ")) && after[file] != is {
					t.Errorf("%s was %q, is %q", file, is, after[file])
				}
			}
			if c.refused && len(after) != len(before) {
				t.Errorf("there were %d files, there are %d", len(before), len(after))
			}
			if _, made := after[filepath.Join(dir, "missing")]; made != (!c.refused && !slices.Contains(c.theirs, ".")) {
				t.Errorf("the folder was made: %v", made)
			}
			if !c.refused && !strings.Contains(output, "fixed    state        set mode 0700") {
				t.Errorf("a file of root was not fixed: %s", output)
			}
		})
	}
}

// fileTree returns owner, mode and content of every file below dir.
func fileTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		if d.Type().IsRegular() {
			content = readFile(t, path)
		}
		found[path] = fmt.Sprintf("%d %v %q", info.Sys().(*syscall.Stat_t).Uid, info.Mode(), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
