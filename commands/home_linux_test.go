package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// unlistedUID is a user id that no passwd lists, as in a container that runs under any user id.
const unlistedUID = 54321

// TestUserMissingInPasswd checks that HOME counts for a user id that passwd does not list. The id
// is that of a user namespace.
func TestUserMissingInPasswd(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	home := tempDir(t)
	writeFile(t, filepath.Join(home, "work", "kept"), "")
	writeFile(t, filepath.Join(home, ".config", "agentstateloop", "agent.toml"),
		"[agent]\nhandle = \"g1\"\noperator = [\"operator@example.com\"]\n[turn]\nworkdir = \"~/work\"\ncommand = [\"/bin/sh\", \"-c\", \"echo at home in $HOME\"]\n[schedule]\nmode = \"none\"\n")
	run := func(env []string, args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env, cmd.Dir = append(env, "PATH=/usr/local/bin:/usr/bin:/bin", "NO_COLOR=1"), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: unlistedUID, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: unlistedUID, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			if os.Getenv(requireReal) != "" {
				t.Fatal(err)
			}
			t.Skipf("this system makes no user namespace: %v", err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		env  []string
		args string
		code int
		want string
	}{
		{[]string{"HOME=" + home}, "status", exitDone, "@g1 is IDLE"},
		{[]string{"HOME=" + home}, "tell hello", exitDone, "at home in " + home + "\n"},
		{[]string{"HOME=" + home + "/"}, "doctor --all --no-network", exitDone, "info     home         user 54321 is not in passwd: ~ means HOME, " + home + "\n"},
		{[]string{"HOME=/nowhere"}, "status", exitUsage, "error: no configuration found: neither agent.toml nor /nowhere/.config/agentstateloop/agent.toml exists\n"},
		{nil, "status", exitUsage, "error: no configuration found: agent.toml does not exist in this folder, and your home directory is unknown: user 54321 is not in passwd, and HOME is not set\nagentstateloop: hint: set HOME to your home directory, or name your configuration with --config FILE\n"},
		{[]string{"HOME=work"}, "status", exitUsage, `user 54321 is not in passwd, and HOME is "work", not an absolute path`},
		{nil, "status --config " + home + "/.config/agentstateloop/agent.toml", exitUsage, "error: user 54321 is not in passwd, and HOME is not set\nagentstateloop: hint: set HOME"},
	} {
		out, code := run(c.env, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s with %q: exit %d, want %d and %q:\n%s", c.args, c.env, code, c.code, c.want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(home, ".local", "state", "agentstateloop", "g1", "state.json")); err != nil {
		t.Error(err)
	}
}
