package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
)

// ownCgroup moves a shell into a control group of its own, and runs the rest in namespaces: the
// service manager of the test sees no other processes, and ends with its namespace.
const ownCgroup = `set -u
for tree in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
	if [ -w $tree/cgroup.procs ] && mkdir $tree/agentstateloop-$$; then echo $$ >$tree/agentstateloop-$$/cgroup.procs; fi
done
unshare --mount --pid --fork --kill-child --mount-proc sh -c "$1" sh "$2" "$3"
code=$?
for tree in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
	if [ -d $tree/agentstateloop-$$ ]; then
		echo $$ >$tree/cgroup.procs
		find $tree/agentstateloop-$$ -depth -type d -exec rmdir {} \;
	fi
done
exit $code
`

// systemdScript runs the real service manager of a user. Its timer starts a turn. Then the script
// reloads the manager and restarts the timer, and lets the test send a STOP, which a poll of the
// timer must collect.
const systemdScript = `set -eu
dir=$1 program=$2
mount --make-rprivate /
mount -t tmpfs tmpfs /run
export HOME="$dir" TEST_HOME="$dir" XDG_RUNTIME_DIR=/run/user/$(id -u)
mkdir -p /run/systemd/system "$XDG_RUNTIME_DIR"
cd "$dir"
/lib/systemd/systemd --user --log-target=console >manager 2>&1 &
for try in $(seq 100); do
	if systemctl --user list-units >/dev/null 2>&1; then break; fi
	sleep 0.1
done
wait_for() {
	for second in $(seq 150); do
		if eval "$1"; then return; fi
		sleep 1
	done
	echo "after 150 seconds: not yet: $1" >&2
	exit 1
}
"$program" --config "$dir/agent.toml" init --no-network >init 2>&1
wait_for '[ -e started ]'
systemctl --user show --property=ActiveState,Result agentstateloop-goulard3120.service >service
systemctl --user daemon-reload
systemctl --user restart agentstateloop-goulard3120.timer
systemctl --user stop agentstateloop-goulard3120.service
pgrep -x sleep >alive
"$program" --config "$dir/agent.toml" doctor --no-network --all >doctor 2>&1 || true
touch stop
wait_for '"$program" --config "$dir/agent.toml" status --json | grep -q "\"status\": \"idle\""'
"$program" --config "$dir/agent.toml" uninstall >uninstall 2>&1
systemctl --user list-timers --all >timers 2>&1
`

// TestRealSystemd lets the real service manager of a user poll an agent by the units that init
// writes. It takes about two minutes and needs root, like TestRealCronDaemon.
func TestRealSystemd(t *testing.T) {
	if os.Getenv(requireReal) != "1" {
		t.Skip("takes minutes: set " + requireReal + "=1")
	}
	t.Parallel()
	dir := tempDir(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	writeAgent(t, dir, servers, "[turn]\ncommand = [\"./agent\"]\n[schedule]\nmode = \"systemd\"\n")
	writeScript(t, filepath.Join(dir, "agent"), "cat >/dev/null\necho half of it\ntouch started\nexec sleep 300")
	program := buildProgram(t, dir)
	deliverMail(t, servers, "work")
	var out []byte
	var err error
	done := make(chan struct{})
	go func() {
		out, err = exec.CommandContext(t.Context(), "sh", "-c", ownCgroup, "sh", systemdScript, dir, program).CombinedOutput()
		close(done)
	}()
	for sent := false; ; {
		select {
		case <-done:
		case <-time.After(200 * time.Millisecond):
			if _, err := os.Stat(filepath.Join(dir, "stop")); err == nil && !sent {
				deliverText(t, servers, "stop", "STOP")
				sent = true
			}
			continue
		}
		break
	}
	if err != nil {
		t.Fatalf("under systemd: %v\n%s\n%s\n%s\n%s", err, out, readFile(t, filepath.Join(dir, "manager")), readFile(t, filepath.Join(dir, "init")), readFile(t, filepath.Join(dir, "state", "log")))
	}
	for file, words := range map[string]string{
		"service":   "ActiveState=inactive",
		"alive":     "\n",
		"uninstall": "removed the timer of @goulard3120",
		"doctor":    "agentstateloop-goulard3120.timer is active, and polls each minute",
	} {
		if got := readFile(t, filepath.Join(dir, file)); !strings.Contains(got, words) {
			t.Errorf("%s lacks %q:\n%s", file, words, got)
		}
	}
	if got := readFile(t, filepath.Join(dir, "timers")); strings.Contains(got, "agentstateloop") {
		t.Errorf("after uninstall:\n%s", got)
	}
	if !wasSent(servers, "half of it") {
		t.Errorf("no answer of the stopped turn: %q", servers.Sent())
	}
	if got := readFile(t, filepath.Join(dir, "manager")); strings.Contains(got, "left-over") || strings.Contains(got, "Starting agentStateLoop") {
		t.Errorf("the manager logs each start:\n%s", got)
	}
}

// deliverText puts a mail of the operator with this text into the mailbox.
func deliverText(t *testing.T, servers *mailtest.Servers, id, text string) {
	t.Helper()
	raw := "From: operator@example.com\r\nSubject: @goulard3120 " + text + "\r\nMessage-ID: <" + id + "@example.com>\r\n\r\n" + text + "\r\n"
	if _, err := servers.Append([]byte(raw), time.Now()); err != nil {
		t.Fatal(err)
	}
}
