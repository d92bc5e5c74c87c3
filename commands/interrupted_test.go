package commands

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state/store"
)

// TestTermCausesNoFailure ends polls and listeners by TERM while something that they need
// hangs. Nothing may count as failed.
func TestTermCausesNoFailure(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	for _, what := range []string{"the mailbox", "the submission server", "the secret", "crontab"} {
		for _, command := range []string{"poll", "poll --quiet", "listen"} {
			t.Run(what+" under "+command, func(t *testing.T) {
				t.Parallel()
				hung := newHungAgent(t, what)
				cmd := exec.Command(program, append([]string{"--config", filepath.Join(hung.dir, "agent.toml")}, strings.Fields(command)...)...)
				var output strings.Builder
				cmd.Stdout, cmd.Stderr = &output, &output
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				hung.wait()
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				code := cmd.ProcessState.ExitCode()
				switch {
				case command == "listen" && (code != exitDone || strings.Contains(output.String(), "poll:")):
					t.Errorf("exit %d: %s", code, &output)
				case command == "poll" && (code != exitError || !strings.Contains(output.String(), "interrupted")):
					t.Errorf("exit %d: %s", code, &output)
				case command == "poll --quiet" && (code != exitError || output.Len() > 0):
					t.Errorf("exit %d: %s", code, &output)
				}
				s, err := (&store.Store{Dir: filepath.Join(hung.dir, "state"), Agent: "goulard3120"}).Read()
				if err != nil {
					t.Fatal(err)
				}
				if s.Schedule.Error != "" || len(s.Credentials) > 0 {
					t.Errorf("the state has a fault: crontab %q, credentials %v", s.Schedule.Error, s.Credentials)
				}
				for _, e := range s.Outbox {
					if e.Attempts > 0 {
						t.Errorf("%s counts as tried", e.ID)
					}
				}
				out, _ := exec.Command(program, "--config", filepath.Join(hung.dir, "agent.toml"), "status").CombinedOutput()
				for _, fault := range []string{"OFFLINE", "CRONTAB", "CREDENTIAL"} {
					if strings.Contains(string(out), fault) {
						t.Errorf("status: %s", out)
					}
				}
			})
		}
	}
}

// hungAgent is an agent for which something hangs.
type hungAgent struct {
	dir  string
	wait func() // until it is used
}

func newHungAgent(t *testing.T, what string) hungAgent {
	dir := tempDir(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	if _, err := servers.Append([]byte("From: operator@example.com\r\nSubject: @goulard3120 hi\r\nMessage-ID: <1@example.com>\r\n\r\nhi\r\n"), time.Now()); err != nil {
		t.Fatal(err)
	}
	used := filepath.Join(dir, "used")
	if err := syscall.Mkfifo(used, 0o600); err != nil {
		t.Fatal(err)
	}
	// What hangs tells that it is used through the pipe, which is opened by both.
	wait := func() {
		if _, err := os.ReadFile(used); err != nil { // a pipe closed earlier would end what hangs
			t.Error(err)
		}
	}
	imap, smtp, secret, crontab := servers.IMAP, servers.SMTP, "echo '"+servers.Password+"'", fmt.Sprintf("exec %q \"$@\"", filepath.Join(dir, "crontab"))
	hangs := fmt.Sprintf("echo x >%q; exec sleep 1000", used)
	switch what {
	case "the mailbox":
		imap, wait = silent(t)
	case "the submission server":
		smtp, wait = silent(t)
	case "the secret":
		secret = hangs
	case "crontab":
		crontab = hangs
	}
	config := fmt.Sprintf("[agent]\nhandle = \"goulard3120\"\noperator = [\"operator@example.com\"]\nstate_dir = \"state\"\n"+
		"[mail]\naddress = \"goulard@example.org\"\n[mail.imap]\nhost = %q\ntls = \"none\"\npassword_command = [\"./secret.sh\"]\n"+
		"[mail.smtp]\nhost = %q\ntls = \"none\"\n[trust]\nrequire = \"from\"\n[turn]\ncommand = [\"/bin/echo\", \"done\"]\n"+
		"[schedule]\ncrontab = \"./crontab.sh\"\n", imap, smtp)
	if _, _, err := crontest.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "agent.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"secret.sh": secret, "crontab.sh": crontab} {
		if err := testkit.WriteProgram(filepath.Join(dir, name), "#!/bin/sh\n"+text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	return hungAgent{dir, wait}
}

// silent returns the address of a server that says nothing, and what waits for a client.
func silent(t *testing.T) (addr string, wait func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), func() {
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
	}
}
