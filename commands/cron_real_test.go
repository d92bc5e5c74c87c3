package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// cronNamespace begins a script in a mount namespace in which cron's spool, system tables and pid
// file are those of the test.
const cronNamespace = `set -eu
dir=$1 program=$2
mount --make-rprivate /
mount --bind "$dir/spool" /var/spool/cron/crontabs
mount --bind "$dir/cron.d" /etc/cron.d
mount --bind "$dir/etc-crontab" /etc/crontab
mount --bind "$dir/pid" /run/crond.pid
`

// cronScript starts the cron daemon, nudges the agent once, and waits until the line is back at
// thirty minutes.
const cronScript = cronNamespace + `cron -f &
cron=$!
trap 'kill $cron' EXIT
"$program" --config "$dir/agent.toml" nudge --from test
crontab -l >"$dir/engaged"
"$program" --config "$dir/agent.toml" doctor --all >"$dir/doctor" || true
for second in $(seq 240); do
	sleep 1
	crontab -l >"$dir/after"
	if grep -q '^\*/30 ' "$dir/after"; then exit 0; fi
done
echo "the line did not return to 30 minutes within 4 minutes" >&2
exit 1
`

// alarmScript has an idle agent that polls once a day. A reminder must cause a poll a minute
// later. The script starts cron and writes the table in different seconds: cron overlooks a second
// change within the second in which it read the first.
const alarmScript = cronNamespace + `"$program" --config "$dir/agent.toml" poll --quiet
sleep 1.1
cron -f &
cron=$!
trap 'kill $cron' EXIT
sleep 1.1
"$program" --config "$dir/agent.toml" remind 1m "look at the build"
crontab -l >"$dir/set"
for second in $(seq 180); do
	sleep 1
	crontab -l >"$dir/after"
	if [ -e "$dir/ran" ] && ! grep -q ' alarm$' "$dir/after"; then exit 0; fi
done
echo "the alarm line did not fire, or did not go, within three minutes" >&2
exit 1
`

// newAgentUnderCron prepares a test with the real cron daemon. The test needs root and minutes, and
// runs only with AGENTSTATELOOP_REQUIRE_REAL=1, as in .ci/run. The agent has no configuration yet.
func newAgentUnderCron(t *testing.T) (installedAgent, *mailtest.Servers) {
	t.Helper()
	if os.Getenv(requireReal) != "1" {
		t.Skip("takes minutes: set " + requireReal + "=1")
	}
	t.Parallel()
	dir := t.TempDir()
	writeCronFolders(t, dir)
	return installedAgent{dir, buildProgram(t, dir)}, mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
}

// runUnderCron runs a script with the cron daemon.
func (i installedAgent) runUnderCron(t *testing.T, script string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", script, "sh", i.dir, i.program).CombinedOutput()
	if err != nil {
		t.Fatalf("under cron: %v\n%s\n%s", err, out, readFile(t, filepath.Join(i.dir, "state", "log")))
	}
}

// TestRealCronAlarm lets the real cron daemon fire the alarm line of an idle agent. It
// takes one or two minutes, at the same time as TestRealCronDaemon.
func TestRealCronAlarm(t *testing.T) {
	a, servers := newAgentUnderCron(t)
	dir := a.dir
	writeScript(t, filepath.Join(dir, "agent"), "cat >/dev/null\ndate >>'"+dir+"/ran'\necho NOTHING")
	writeAgent(t, dir, servers, "[turn]\nrunner = \"exec\"\ncommand = [\"./agent\"]\n[timing]\nidle_interval = \"24h\"\n")
	a.runUnderCron(t, alarmScript)
	if set := readFile(t, filepath.Join(dir, "set")); strings.Count(set, "# agentstateloop goulard3120 alarm\n") != 1 || !strings.Contains(set, "0 0 * * * ") {
		t.Errorf("after the reminder the crontab is\n%s", set)
	}
	if after := readFile(t, filepath.Join(dir, "after")); strings.Contains(after, " alarm") || !strings.Contains(after, "0 0 * * * ") {
		t.Errorf("at the end the crontab is\n%s", after)
	}
	s, err := a.store().Read()
	if err != nil || s.Phase != state.IDLE || len(s.Inbox) != 0 {
		t.Errorf("at the end: phase %s, inbox %v, %v; want IDLE and an empty inbox", s.Phase, s.Inbox, err)
	}
	if turns := strings.Count(readFile(t, filepath.Join(dir, "ran")), "\n"); turns != 1 {
		t.Errorf("%d turns, want one", turns)
	}
}

// TestRealCronDaemon lets the real cron daemon poll a nudged agent each minute, in
// the environment of a cron job, until the agent is IDLE and its line is back at
// thirty minutes. The test takes two or three minutes.
func TestRealCronDaemon(t *testing.T) {
	a, servers := newAgentUnderCron(t)
	dir := a.dir
	writeAgent(t, dir, servers, "[turn]\nrunner = \"none\"\n[timing]\nprep_timeout = \"90s\"\n")
	a.runUnderCron(t, cronScript)
	if line := readFile(t, filepath.Join(dir, "engaged")); !strings.Contains(line, "*/1 * * * * '"+a.program+"'") {
		t.Errorf("after the nudge the crontab is\n%s", line)
	}
	// Doctor ran while the cron daemon did.
	printed := readFile(t, filepath.Join(dir, "doctor"))
	for _, want := range []string{"ok       crontab ", "ok       line ", "ok       cron ", "ok       imap ", "ok       binary ", "ok       state "} {
		if !strings.Contains(printed, want) || strings.Contains(printed, "error ") {
			t.Errorf("doctor does not print %q, or finds an error:\n%s", want, printed)
		}
	}
	s, err := a.store().Read()
	if err != nil || s.Phase != state.IDLE || len(s.Outbox) != 0 {
		t.Errorf("at the end: phase %s, outbox %v, %v; want IDLE and no outbox", s.Phase, s.Outbox, err)
	}
	// The nudge ran one poll. Only cron can have run the others.
	if polls := strings.Count(readFile(t, filepath.Join(dir, "state", "log")), "poll:"); polls < 3 {
		t.Errorf("%d polls in the log, want one by the nudge and two by cron", polls)
	}
	var mails []string
	for _, m := range servers.Sent() {
		mails = append(mails, string(m.Raw))
	}
	if all := strings.Join(mails, "\n"); len(mails) != 2 || !strings.Contains(all, "standing by") || !strings.Contains(all, "going quiet") {
		t.Errorf("%d mails, want \"standing by\" and \"going quiet\":\n%s", len(mails), all)
	}
}

// writeCronFolders writes the files that cronNamespace mounts: a spool with the owner and mode of
// the real one, empty system tables and an empty pid file.
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
		exec.Command("touch", f).Run() // a bind mount needs a file to cover
	}
	spool := filepath.Join(dir, "spool")
	for _, args := range [][]string{{"chgrp", "crontab", spool}, {"chmod", "1730", spool}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	// cron does not read a folder again that was changed twice within a second.
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(spool, before, before); err != nil {
		t.Fatal(err)
	}
}
