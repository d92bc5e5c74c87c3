package box_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentstateloop/turn/box"
)

// helpers are the programs that this test binary stands in for.
func helpers() map[string]func([]string) error {
	return map[string]func([]string) error{escapesCommand: runEscapes, escapeCommand: runEscape, runnerCommand: runRunner}
}

// TestEscapes checks that no escape works in a sandbox, and that each one works outside, where that can
// be tried.
func TestEscapes(t *testing.T) {
	p := newTargets(t)
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
			t.Errorf("outside of a sandbox: %s: %s", r.Name, strings.TrimSpace(r.Fault))
		}
	}
	inEachWay(t, func(t *testing.T, w box.Way) {
		b := box.Box{Self: p.Self, Write: []string{p.Work}, Read: []string{p.Self}, Dir: p.Work}
		var out bytes.Buffer
		if err := b.Run(t.Context(), w, box.Program{
			Argv: []string{p.Self, escapesCommand, string(arg)}, Env: []string{"PATH=/usr/bin:/bin:" + p.Folder}, // with a hidden folder
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

// TestNetwork checks that a program with the network of the machine reaches the servers on loopback,
// but not the other sockets of the machine. It tries the escapes without sockets again only where real
// programs are required.
func TestNetwork(t *testing.T) {
	t.Parallel()
	p := newTargets(t)
	arg, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	inEachWay(t, func(t *testing.T, w box.Way) {
		b := box.Box{Self: p.Self, Write: []string{p.Work}, Read: []string{p.Self}, Dir: p.Work, Network: true}
		argv := []string{p.Self, escapesCommand, string(arg)}
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
			argv = append(argv, "sockets")
		}
		out, err := run(t, b, w, argv...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, r := range parse(t, out) {
			reaches := slices.Contains([]string{"socket: TCP on the machine's loopback", "socket: away", "socket: name service"}, r.Name)
			if r.Fault == "" && !reaches {
				t.Errorf("%s: it got out", r.Name)
			}
			if r.Fault != "" && r.Name == "socket: TCP on the machine's loopback" {
				t.Errorf("%s: %s", r.Name, r.Fault)
			}
		}
		if out, err := run(t, b, w, "sh", "-c", "cat /etc/hosts"); err != nil || !strings.Contains(out, "127.0.0.1") {
			t.Errorf("/etc/hosts: %q, %v", out, err)
		}
	})
}

// TestReplacedGrantedFolders checks that a link that a program leaves in its folder does not grant its
// target to the next sandbox.
func TestReplacedGrantedFolders(t *testing.T) {
	inEachWay(t, func(t *testing.T, w box.Way) {
		base := t.TempDir()
		work, secret := filepath.Join(base, "work"), filepath.Join(base, "secret")
		tools := filepath.Join(work, "a", "tools")
		for _, err := range []error{os.MkdirAll(tools, 0o700), os.Mkdir(secret, 0o700), os.WriteFile(filepath.Join(secret, "file"), []byte(canary), 0o600)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, granted := range []box.Box{
			{Self: self(t), Write: []string{work}, Read: []string{tools}, Dir: work},
			{Self: self(t), Write: []string{work, tools}, Dir: work},
			{Self: self(t), Write: []string{tools, work}, Read: []string{work}, Dir: work},
		} {
			if out, err := run(t, granted, w, "sh", "-c", "rm -rf a && mkdir a && ln -s $0 a/tools", secret); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if out, err := run(t, granted, w, "sh", "-c", "cat a/tools/file $0/file", secret); err == nil || strings.Contains(out, canary) {
				t.Errorf("%+v: %q, %v", granted, out, err)
			}
			if err := os.Remove(tools); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(tools, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSandboxContent checks the files and processes of an empty sandbox, which are the same in both
// ways.
func TestSandboxContent(t *testing.T) {
	inEachWay(t, func(t *testing.T, w box.Way) {
		dir := t.TempDir()
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte("granted"), 0o600); err != nil {
			t.Fatal(err)
		}
		b := box.Box{Self: self(t), Write: []string{dir}, Read: []string{file}}
		for script, want := range map[string]string{
			"ls -A / | grep -v '^lib'":                          ".self\nbin\ndev\netc\nproc\nsbin\ntmp\nusr\n",
			"ls /dev | grep -v -e core":                         "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n",
			"id -un; pwd; echo $HOME; hostname":                 "agent\n/tmp\n/tmp/home\nbox\n",
			"ls -A /dev/shm /tmp/home":                          "/dev/shm:\n\n/tmp/home:\n",
			"cat " + file:                                       "granted",
			"set -- /proc/[0-9]*; echo $#":                      "2\n", // the first, and the shell
			"awk 'BEGIN { print 7 }'":                           "7\n", // a link through /etc/alternatives
			"tail -n +3 /proc/net/dev | wc -l":                  "1\n",
			"ls /.self/*/ /etc/ssh 2>&1 | grep -c -e directory": "2\n",
		} {
			if out, err := run(t, b, w, "sh", "-c", script); err != nil || out != want {
				t.Errorf("%s: %q, %v, want %q", script, out, err, want)
			}
		}
		if out, err := run(t, b, w, "sh", "-c", "cat /.self/*"); err == nil || !strings.Contains(out, "Permission denied") {
			t.Errorf("our binary: %d bytes, %v", len(out), err)
		}
		if out, err := run(t, b, w, "sh", "-c", "echo changed >"+file); err == nil {
			t.Errorf("a granted file was written: %q", out)
		}
	})
}

// TestForbiddenGrants checks that a forbidden or missing folder is an error, before the program runs.
func TestForbiddenGrants(t *testing.T) {
	inEachWay(t, func(t *testing.T, w box.Way) {
		dir := t.TempDir()
		link := filepath.Join(dir, "link")
		if err := os.Symlink("/", link); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/.", "/tmp/..", "relative", "", "/etc", "/etc/", "/proc", "/proc/1/root", "/sys/fs", "/dev", "/dev/shm", "/run", link, filepath.Join(dir, "missing")} {
			for _, b := range []box.Box{{Self: self(t), Read: []string{path}}, {Self: self(t), Write: []string{path}}} {
				if out, err := run(t, b, w, "echo", "ran"); err == nil || out != "" {
					t.Errorf("%q: %q, %v", path, out, err)
				}
			}
		}
	})
}
