package commands

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
)

// TestTermCausesNoFailure ends polls and listeners by TERM while a server or a program that they
// need hangs. That may not be recorded as a failure.
func TestTermCausesNoFailure(t *testing.T) {
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	for _, part := range []string{"the mailbox", "the submission server", "the secret", "crontab"} {
		for _, command := range []string{"poll", "poll --quiet", "listen"} {
			t.Run(part+" under "+command, func(t *testing.T) {
				t.Parallel()
				hung := newHungAgent(t, program, part)
				cmd := hung.command(t.Context(), strings.Fields(command)...)
				var output strings.Builder
				cmd.Stdout, cmd.Stderr = &output, &output
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				hung.waitForUse()
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
				s, err := hung.store().Read()
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
				out, _, _ := hung.run(t.Context(), "status")
				for _, fault := range []string{"OFFLINE", "CRONTAB", "CREDENTIAL"} {
					if strings.Contains(out, fault) {
						t.Errorf("status: %s", out)
					}
				}
			})
		}
	}
}

// hungAgent is an agent that needs a server or a program that hangs.
type hungAgent struct {
	installedAgent
	waitForUse func() // of that server or program
}

func newHungAgent(t *testing.T, program, part string) hungAgent {
	dir := tempDir(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	deliverMail(t, servers, "1")
	used := filepath.Join(dir, "used")
	if err := syscall.Mkfifo(used, 0o600); err != nil {
		t.Fatal(err)
	}
	// A program that hangs reports its use through the pipe, which both open.
	wait := func() {
		if _, err := os.ReadFile(used); err != nil { // a pipe closed earlier would end the program
			t.Error(err)
		}
	}
	imap, smtp, secret, crontab := servers.IMAP, servers.SMTP, "echo '"+servers.Password+"'", fmt.Sprintf("exec %q \"$@\"", filepath.Join(dir, "crontab"))
	hangs := fmt.Sprintf("echo x >%q; exec sleep 1000", used)
	switch part {
	case "the mailbox":
		imap, wait = startSilentServer(t)
	case "the submission server":
		smtp, wait = startSilentServer(t)
	case "the secret":
		secret = hangs
	case "crontab":
		crontab = hangs
	}
	config := fmt.Sprintf(agentSection+
		"[mail]\naddress = \"goulard@example.org\"\n[mail.imap]\nhost = %q\ntls = \"none\"\npassword_command = [\"./secret.sh\"]\n"+
		"[mail.smtp]\nhost = %q\ntls = \"none\"\n[trust]\nrequire = \"from\"\n[turn]\ncommand = [\"/bin/echo\", \"done\"]\n"+
		"[schedule]\ncrontab = \"./crontab.sh\"\n", imap, smtp)
	if _, _, err := crontest.Write(dir); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "agent.toml"), config)
	writeScript(t, filepath.Join(dir, "secret.sh"), secret)
	writeScript(t, filepath.Join(dir, "crontab.sh"), crontab)
	return hungAgent{installedAgent{dir, program}, wait}
}

// startSilentServer returns the address of a server that sends no bytes, and a function that waits
// for its client.
func startSilentServer(t *testing.T) (addr string, wait func()) {
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
