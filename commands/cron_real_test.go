package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/mail/mailtest"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// cronScript runs in a mount namespace of its own, in which cron's spool, its
// system tables and its pid file are the test's: it starts the cron daemon,
// nudges the agent once, and waits for the line to return to thirty minutes.
const cronScript = `set -eu
dir=$1 program=$2
mount --make-rprivate /
mount --bind "$dir/spool" /var/spool/cron/crontabs
mount --bind "$dir/cron.d" /etc/cron.d
mount --bind "$dir/etc-crontab" /etc/crontab
mount --bind "$dir/pid" /run/crond.pid
cron -f &
cron=$!
trap 'kill $cron' EXIT
"$program" --config "$dir/agent.toml" nudge --from test
crontab -l >"$dir/engaged"
"$program" --config "$dir/agent.toml" doctor >"$dir/doctor" || true
for second in $(seq 240); do
	sleep 1
	crontab -l >"$dir/after"
	if grep -q '^\*/30 ' "$dir/after"; then exit 0; fi
done
echo "the line did not return to 30 minutes within 4 minutes" >&2
exit 1
`

// TestRealCronDaemon: the real cron fires a nudged agent each minute, with what
// cron gives a job alone, until the agent is quiet and its line is back at thirty
// minutes. This takes two or three real minutes, and root. So it runs only where
// the real servers are demanded, as in .ci/run.
func TestRealCronDaemon(t *testing.T) {
	if os.Getenv(requireReal) != "1" {
		t.Skip("takes minutes: set " + requireReal + "=1")
	}
	t.Parallel()
	dir := t.TempDir()
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	writeCronFolders(t, dir)
	program := buildProgram(t, dir)
	writeAgent(t, dir, servers, "[turn]\nrunner = \"none\"\n[timing]\nprep_timeout = \"90s\"\n")

	out, err := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", cronScript, "sh", dir, program).CombinedOutput()
	if err != nil {
		t.Fatalf("under cron: %v\n%s\n%s", err, out, readFile(t, filepath.Join(dir, "state", "log")))
	}
	if line := readFile(t, filepath.Join(dir, "engaged")); !strings.Contains(line, "*/1 * * * * '"+program+"'") {
		t.Errorf("after the nudge the table is\n%s", line)
	}
	// What doctor says of the real thing, while it runs.
	said := readFile(t, filepath.Join(dir, "doctor"))
	for _, want := range []string{"ok       crontab ", "ok       line ", "ok       cron ", "ok       imap ", "ok       binary ", "ok       state "} {
		if !strings.Contains(said, want) || strings.Contains(said, "error ") {
			t.Errorf("doctor does not say %q, or finds an error:\n%s", want, said)
		}
	}
	st := &store.Store{Dir: filepath.Join(dir, "state"), Agent: "goulard3120"}
	s, err := st.Read()
	if err != nil || s.Phase != state.IDLE || len(s.Outbox) != 0 {
		t.Errorf("in the end: %s, outbox %v, %v", s.Phase, s.Outbox, err)
	}
	// One poll is the nudge's own; the others can only be cron's.
	if polls := strings.Count(readFile(t, filepath.Join(dir, "state", "log")), "poll:"); polls < 3 {
		t.Errorf("%d polls in the log, want the nudge's and two of cron's", polls)
	}
	var subjects []string
	for _, m := range servers.Sent() {
		subjects = append(subjects, string(m.Raw))
	}
	if all := strings.Join(subjects, "\n"); len(subjects) != 2 || !strings.Contains(all, "standing by") || !strings.Contains(all, "going quiet") {
		t.Errorf("%d mails, want the ack and the quiet:\n%s", len(subjects), all)
	}
}

// writeCronFolders makes what cron needs to live on: a spool like the true one, and
// empty system tables.
func writeCronFolders(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{"spool", "cron.d"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"etc-crontab", "pid"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"/etc/crontab", "/run/crond.pid"} {
		exec.Command("touch", f).Run() // a mount needs a file to cover
	}
	spool := filepath.Join(dir, "spool")
	for _, args := range [][]string{{"chgrp", "crontab", spool}, {"chmod", "1730", spool}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
}
