package commands

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/fleettest"
)

// TestFleetPage plays "Ten minutes" and "Three servers, two hosts" of docs/fleet.md from the text of the page,
// as a new user does: with an empty home, the real program, nats-server, cron and openssl, on a network of
// its own, in which each of the three servers has a machine with its own address. A step that fails ends
// the test.
func TestFleetPage(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"unshare", "ip", "openssl", "cron"} {
		if _, err := exec.LookPath(program); err == nil && os.Geteuid() == 0 {
			continue
		}
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatalf("needs root and %s", program)
		}
		t.Skipf("needs root and %s", program)
	}
	page, err := os.ReadFile("../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	bin := filepath.Join(dir, "bin")
	for _, folder := range []string{bin, filepath.Join(dir, "home"), filepath.Join(dir, "cron")} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	server, err := os.ReadFile(fleettest.Program(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "nats-server"), server, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(buildProgram(t, dir), filepath.Join(bin, "agentstateloop")); err != nil {
		t.Fatal(err)
	}
	script := strings.ReplaceAll(fleetWorld, "DIR", dir) +
		sectionScript(t, string(page), "Ten minutes: one server, two agents") +
		"agentstateloop -a dorlange3120 inbox list | grep 'are you there?'\n" +
		"agentstateloop -a goulard3120 status --all | grep dorlange3120\n" +
		"kill $server\n" + fleetMachines +
		sectionScript(t, string(page), "Three servers, two hosts") + fleetEnd
	cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-eux", "-c", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the page cannot be followed: %v\n%s", err, out)
	}
}

// fleetWorld gives the user an empty home and crontab, a running cron, and shell functions for the steps that
// the page describes in words.
const fleetWorld = `
home=$(getent passwd 0 | cut -d: -f6)
mount -t tmpfs tmpfs /run
mkdir -p /var/spool/cron/crontabs
mount --bind DIR/cron /var/spool/cron/crontabs
mount --bind DIR/home "$home"
ip link set lo up
cron
export HOME="$home"
cd
key() { agentstateloop fleet key --json "$@" | grep -o '"U[A-Z2-7]*"' | tr -d '"'; }
listens() { for i in $(seq 300); do ! grep -q "$1" /proc/net/tcp || return 0; sleep 0.1; done; return 1; }
`

// fleetMachines takes the mesh out of the agents' configurations, and makes a network with three machines.
const fleetMachines = `
cd "$home/.config/agentstateloop"
sed -i '/^ *\[mesh\]/,$d' goulard3120.toml dorlange3120.toml
cd; mkdir three; cd three; cp ../admin.nk .
ip link add bridge type bridge
ip address add 10.77.0.254/24 dev bridge
ip link set bridge up
cp /etc/hosts hosts
for n in 1 2 3; do
  ip netns add n$n
  ip link add port$n type veth peer name eth0 netns n$n
  ip link set port$n master bridge up
  ip -n n$n address add 10.77.0.$n/24 dev eth0
  ip -n n$n link set eth0 up
  ip -n n$n link set lo up
  echo "10.77.0.$n n$n.example.com" >>hosts
done
mount --bind hosts /etc/hosts
# Each server has its own folder and machine, and is started by its line of the plan.
start() {
  grep -F "#   $*" fleet.conf
  for n in n1 n2 n3; do
    mkdir $n
    cp fleet.conf ca.pem $n
    cp $n.pem $n/server.pem
    cp $n.key $n/server.key
    line=$(sed -n "s/^#   \(SERVER=$n\..*\)/\1/p" fleet.conf)
    (cd $n && exec ip netns exec $n sh -c "exec env $line" 2>log) &
    echo $! >>pids
  done
  cp ca.pem "$home/.config/agentstateloop"
  for i in $(seq 300); do ! agentstateloop fleet create --check --admin-key admin.nk --ca-file ca.pem --url tls://n1.example.com,n2.example.com,n3.example.com 2>&1 | grep missing || return 0; sleep 0.1; done
  cat n?/log
  return 1
}
`

// fleetEnd checks the agents on three servers, and once more while one server is down.
const fleetEnd = `
agentstateloop fleet create --check --admin-key admin.nk --ca-file ca.pem --url tls://n1.example.com,n2.example.com,n3.example.com goulard3120 dorlange3120
agentstateloop -a goulard3120 doctor
agentstateloop -a dorlange3120 doctor
kill $(head -n 1 pids)
agentstateloop -a goulard3120 mesh send dorlange3120 'on two of three'
agentstateloop -a dorlange3120 poll
agentstateloop -a dorlange3120 inbox list | grep 'on two of three'
`

var (
	pageBlock  = regexp.MustCompile("(?m)^       ( *\\S.*)\n|^   ```toml\n((?s:.*?))^   ```\n")
	agentKeyOf = regexp.MustCompile(`([a-z]+3120)=U…`)
)

// sectionScript returns the commands of a section of the page, for a shell.
func sectionScript(t *testing.T, page, title string) string {
	t.Helper()
	_, text, found := strings.Cut(page, "\n## "+title+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var b strings.Builder
	for _, block := range pageBlock.FindAllStringSubmatch(text, -1) {
		line, toml := block[1], block[2]
		switch {
		case toml != "":
			for _, names := range [][2]string{{"goulard3120", "dorlange3120"}, {"dorlange3120", "goulard3120"}} {
				own := strings.NewReplacer("goulard3120", names[0], "dorlange3120", names[1], "U…", "$("+"key -a "+names[1]+")").Replace(toml)
				fmt.Fprintf(&b, "cat >>\"$home/.config/agentstateloop/%s.toml\" <<END\n%sEND\n", names[0], own)
			}
		case strings.HasPrefix(line, "nats-server"):
			fmt.Fprintf(&b, "%s 2>nats.log & server=$!\nlistens :107E\n", line)
		case strings.HasPrefix(line, "SERVER="):
			fmt.Fprintf(&b, "start %s\n", line)
		default:
			line = strings.ReplaceAll(line, "UADMIN…", "$(key --file admin.nk)")
			b.WriteString(agentKeyOf.ReplaceAllString(line, "$1=$$(key -a $1)") + "\n")
		}
	}
	if !found || b.Len() < 500 {
		t.Fatalf("the section %q has the commands:\n%s", title, b.String())
	}
	return b.String()
}
