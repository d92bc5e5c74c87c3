package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/fleet"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/mailtest"
)

// natsFixture is an agent with a mesh over NATS for doctor.
type natsFixture struct {
	t      *testing.T
	engine *fleettest.Engine
	dir    string
	url    string
	ahead  time.Duration // of its clock
}

func newNATSFixture(t *testing.T, e *fleettest.Engine) *natsFixture {
	t.Helper()
	a := &natsFixture{t: t, engine: e, dir: t.TempDir(), url: e.URL()}
	if err := os.Chmod(a.dir, 0o700); err != nil { // also under umask 000
		t.Fatal(err)
	}
	a.write("key", e.Users["goulard3120"].Seed)
	return a
}

func (a *natsFixture) write(name, text string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// findings returns the findings of doctor about the mesh, as "level check: text; hint". more is
// added to the configuration.
func (a *natsFixture) findings(more string) []string {
	a.t.Helper()
	a.write("agent.toml", fmt.Sprintf(`[agent]
handle = "goulard3120"
operator = ["operator@example.com"]
state_dir = "state"
[turn]
runner = "none"
[timing]
network_timeout = "2s"
[schedule]
mode = "none"
[mesh]
url = %q
key_file = "key"
%s`, a.url, more))
	loader := &config.Loader{
		Account:    func() (account.Account, error) { return account.Account{Home: a.dir, Known: true}, nil },
		Executable: func() (string, error) { return "/bin/false", nil },
		Now:        func() time.Time { return time.Now().Add(a.ahead) },
		Secrets:    &secret.Known{},
	}
	var lines []string
	for _, f := range Examine(a.t.Context(), Subject{Loader: loader, Path: filepath.Join(a.dir, "agent.toml"), Network: true, Proc: "/proc"}) {
		if strings.HasPrefix(f.Check, "mesh") || slices.Contains([]string{"config", "secret.mesh", "clock", "keymaster", "peers", "fleet"}, f.Check) {
			lines = append(lines, fmt.Sprintf("%s %s: %s; %s", f.Level, f.Check, f.Text, f.Hint))
		}
	}
	return lines
}

// expect checks that each pattern matches a finding, and that all warnings and errors are
// among those.
func (a *natsFixture) expect(name, more string, patterns ...string) {
	a.t.Helper()
	lines := a.findings(more)
	var matched []string
	for _, p := range patterns {
		n := slices.IndexFunc(lines, regexp.MustCompile("^"+p).MatchString)
		if n < 0 {
			a.t.Errorf("%s: no finding is like %s; all:\n%s", name, p, strings.Join(lines, "\n"))
			return
		}
		matched = append(matched, lines[n])
	}
	for _, line := range lines {
		if (strings.HasPrefix(line, "warn") || strings.HasPrefix(line, "error")) && !slices.Contains(matched, line) {
			a.t.Errorf("%s: not expected: %s", name, line)
		}
	}
}

const peerConfig = "peers = [\"dorlange3120\"]\n[mesh.keys]\ndorlange3120 = %q\n"

// TestNATSMeshFindings checks the findings with one server: for a healthy agent, and for faults of
// its keys, its rights, its clock and its mailbox.
func TestNATSMeshFindings(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "goulard3120", "dorlange3120")
	a := newNATSFixture(t, e)
	own, peer := e.Users["goulard3120"], e.Users["dorlange3120"]
	well := fmt.Sprintf(peerConfig, peer.Public)

	before := storedMessages(t, e)
	a.expect("well", well,
		`ok secret.mesh: read from .*/key; the public key is `+own.Public,
		`ok mesh: 127\.0\.0\.1:\d+ answers: nats-server 2\.\d+\.\d+, N[A-Z0-9]+; it accepts the key; a round trip takes \d+\.\d ms`,
		`ok mesh.rights: the key has all 17 rights that an agent needs, and none that it must not have; nothing was sent`,
		`ok mesh.mailbox: 0 messages waiting; $`,
		`ok mesh.streams: ASL_BOX, ASL_BLOB, KV_asl-who, KV_asl-mesh: present`,
		`info mesh.streams: an agent cannot read ASL_EVT, the settings of the other streams, or sync_interval .*; .*fleet create --check --admin-key FILE.*sync_interval: always`,
		`ok mesh.keys: keys prove the messages of dorlange3120`,
		`info peers: not online: dorlange3120`)
	if after := storedMessages(t, e); after != before {
		t.Errorf("doctor stored something: %d messages, before %d", after, before)
	}

	a.expect("no key of the keymaster", "peers = [\"dorlange3120\"]\nkeymaster = \"boreas\"\n[mesh.keys]\nother = \""+peer.Public+"\"\n",
		`warn mesh.keys: no key for boreas, dorlange3120: their messages are unproven, and they cause no turns; .*\[mesh.keys\]`,
		`warn keymaster: boreas is not online`)
	a.expect("open trust", "peers = [\"dorlange3120\"]\n[trust]\nmesh = \"open\"\n",
		`warn mesh.keys: no key for dorlange3120: .* lets them cause turns anyway`)
	a.expect("our key for a peer's", fmt.Sprintf(peerConfig, own.Public),
		`warn secret.mesh: \[mesh.keys\] lists this agent's key as the key of dorlange3120`)

	twin := e.Client("goulard3120")
	twin.Host = "elsewhere"
	if _, err := twin.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.expect("a second machine", well, `warn mesh: @goulard3120 also polls on elsewhere, last seen \d\d:\d\d:\d\d: each message reaches only one of the two machines`)
	e.Ask("STREAM.PURGE."+fleet.WhoStream, nil, nil)

	a.ahead = time.Hour
	a.expect("a clock that is wrong", well, `warn clock: this machine's clock differs from the mesh's by 1h`)
	a.ahead = 0

	if err := e.Client("dorlange3120").Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.expect("HALT", well, `warn mesh: HALT is set on the mesh`, `ok mesh.rights: the key has all 17 rights`)

	a.write("key", fleettest.NewKey(t).Seed)
	a.expect("a key that the server does not know", well,
		`ok secret.mesh: `, `error mesh: 127.*: key refused.*; .*fleet plan.*goulard3120=U`)
	a.write("key", "SUAAA")
	a.expect("no seed", well, `error secret.mesh: .*not the seed.*; create a key with`, `skipped mesh: the key could not be read; see secret.mesh`)
	if err := os.Remove(filepath.Join(a.dir, "key")); err != nil {
		t.Fatal(err)
	}
	a.expect("no file", well, `error secret.mesh: .*no such file.*fleet key`, `skipped mesh: the key could not be read; see secret.mesh`)

	a.write("key", e.Admin.Seed)
	a.expect("the administrator's key", well,
		`warn mesh.rights: the key has rights that an agent must not have: subscribe to _INBOX__\.>; publish to asl\.box\.goulard3120\._; .*STREAM\.INFO.*; if this is the administrator's key, use`,
		`warn mesh: HALT`)
}

// storedMessages returns how many messages the engine has taken into its streams.
func storedMessages(t *testing.T, e *fleettest.Engine) (n int) {
	t.Helper()
	for _, a := range fleet.Assets(1) {
		var info struct {
			State struct {
				Last int `json:"last_seq"`
			} `json:"state"`
		}
		e.Ask("STREAM.INFO."+a.Stream.Name, nil, &info)
		n += info.State.Last
	}
	return n
}

// fleetSubject matches the lines of a configuration that are only for agents with [fleet].
var fleetSubject = regexp.MustCompile(`(?m)^.*(asl-head|asl\.hist|asl\.file).*\n`)

// TestMissingRightsNamed checks that doctor names each missing right, stream and mailbox, on an
// engine with one server.
func TestMissingRightsNamed(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "goulard3120", "dorlange3120")
	a := newNATSFixture(t, e)
	well := fmt.Sprintf(peerConfig, e.Users["dorlange3120"].Public)
	without := func(lines ...string) func(string) string {
		return func(text string) string {
			for _, line := range lines {
				text = strings.ReplaceAll(text, "          "+line+"\n", "")
			}
			return text
		}
	}
	e.Configure(func(text string) string { return fleetSubject.ReplaceAllString(text, "") })
	for _, stream := range []string{fleet.HeadStream, fleet.HistoryStream, fleet.FileStream} {
		e.Ask("STREAM.DELETE."+stream, nil, nil)
	}
	a.expect("servers of an older version", well, `ok mesh.rights: the key has all 17 rights`, `ok mesh.streams: ASL_BOX, ASL_BLOB, KV_asl-who, KV_asl-mesh: present`,
		`info mesh.streams: an agent cannot read ASL_EVT, the settings`)
	e.Configure(without(`"asl.box.*.goulard3120"`, `"cmd.agent.*.wakeup"`, `"cmd.agent.goulard3120.wakeup"`, `"$KV.asl-mesh.halt"`))
	a.expect("missing rights", well,
		`error mesh.rights: the key lacks a right: it may not publish to asl\.box\.\*\.goulard3120; .*fleet plan`,
		`error mesh.rights: .* publish to cmd\.agent\.\*\.wakeup`,
		`error mesh.rights: .* publish to \$KV\.asl-mesh\.halt`,
		`error mesh.rights: .* subscribe to cmd\.agent\.goulard3120\.wakeup`,
		`error mesh.rights: .* subscribe to \$KV\.asl-mesh\.halt`)

	e.Ask("CONSUMER.DELETE.ASL_BOX.goulard3120", nil, nil)
	e.Ask("STREAM.DELETE.ASL_BLOB", nil, nil)
	e.Configure(func(text string) string {
		return strings.ReplaceAll(text, "asl.box.*.dorlange3120", "asl.box.*.goulard3120") // the first right again
	})
	a.expect("not made", well,
		`error mesh.mailbox: the server has no mailbox for goulard3120, and accepts no messages for it; .*fleet create`,
		`error mesh.streams: no answer from ASL_BLOB, the files of messages, in chunks; .*fleet create`,
		`ok mesh.streams: KV_asl-who, KV_asl-mesh: present`,
		`error mesh.rights: .* publish to asl.box`, `error mesh.rights: .* publish to cmd\.`, `error mesh.rights: .* publish to .KV\.`,
		`error mesh.rights: .* subscribe to cmd`, `error mesh.rights: .* subscribe to .KV`)

	e.Configure(func(text string) string { return strings.ReplaceAll(text, "_INBOX_goulard3120.>", "_INBOX_other.>") })
	if lines := strings.Join(a.findings(well), "\n"); !strings.Contains(lines, "error mesh.rights: the key lacks a right: it may not subscribe to _INBOX_goulard3120.>") {
		t.Errorf("without the right to hear answers:\n%s", lines)
	}
}

// TestMeshOfThreeServers checks that doctor names the one server of three that is down, a missing
// copy and a missing quorum.
func TestMeshOfThreeServers(t *testing.T) {
	t.Parallel()
	e := fleettest.StartCluster(t, "goulard3120", "dorlange3120")
	a := newNATSFixture(t, e)
	well := fmt.Sprintf(peerConfig, e.Users["dorlange3120"].Public)
	server := func(n int) string { return regexp.QuoteMeta(e.Servers[n].Addr) }

	// The copies of a new mailbox need a moment to catch up.
	a.until("three", well, `ok mesh: `+server(0), `ok mesh: `+server(1), `ok mesh: `+server(2),
		`ok mesh.mailbox: 0 messages waiting, stored on n\d, n\d, n\d`)

	// A server that is not a leader, so that its end causes no election.
	follower := slices.IndexFunc(e.Servers, func(s *fleettest.Server) bool {
		return !slices.ContainsFunc(fleet.Assets(3), func(a fleet.Asset) bool { return e.Leader(a.Stream.Name) == s })
	})
	down := max(follower, 0)
	e.Servers[down].Kill()
	a.until("one of three is down", well, `warn mesh: `+server(down)+`: connection refused; start nats-server there`,
		`ok mesh: `+server((down+1)%3), `ok mesh: `+server((down+2)%3),
		`warn mesh.mailbox: the copy on `+e.Servers[down].Name+` is offline, or behind`, `ok mesh.streams: ASL_BOX, ASL_BLOB, KV_asl-who, KV_asl-mesh: present`)
	e.Servers[down].Start()

	box := fleet.Assets(1)[0].Stream
	mailbox := fleet.Mailbox("goulard3120")
	mailbox.AckWait = 30 * time.Second
	e.Ask("STREAM.DELETE."+box.Name, nil, nil)
	e.Ask("STREAM.CREATE."+box.Name, box, nil)
	e.Ask("CONSUMER.DURABLE.CREATE."+box.Name+".goulard3120", map[string]any{"stream_name": box.Name, "config": mailbox}, nil)
	a.until("one copy", well, `warn mesh.mailbox: messages are stored only on n\d, of 3 servers, and are lost with it; .*fleet create --check`,
		`warn mesh.mailbox: the mailbox has the wrong settings: ack_wait 30s instead of 1m0s`)

	for _, s := range e.Servers {
		s.Kill()
	}
	a.expect("none", well, `error mesh: `+server(0), `error mesh: `+server(1), `error mesh: `+server(2))
	e.Servers[0].Start()
	a.until("no quorum", well, `ok mesh: `+server(0), `warn mesh: `+server(1), `warn mesh: `+server(2),
		`error mesh.mailbox: the mailbox does not answer: it has no quorum; more than half`,
		`error mesh.streams: .*KV_asl-who.*; .*more than half of the servers`, `skipped peers: the registry cannot be read; see mesh.streams`)
}

// TestUnknownAuthorityHint checks the hint about a certificate, and that ca_file is
// enough.
func TestUnknownAuthorityHint(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "goulard3120", "dorlange3120")
	a := newNATSFixture(t, e)
	ca, err := mailtest.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	var chain []byte
	for _, der := range cert.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	a.write("ca.pem", string(ca.PEM))
	a.write("server.pem", string(chain))
	a.write("server.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	e.Configure(func(text string) string {
		return text + fmt.Sprintf("tls { cert_file: %q, key_file: %q }\n", filepath.Join(a.dir, "server.pem"), filepath.Join(a.dir, "server.key"))
	})
	a.url = strings.Replace(a.url, "nats:", "tls:", 1)
	a.expect("another authority", "", `error mesh: .*: server certificate signed by an unknown authority; set ca_file in \[mesh\]`)
	a.expect("its authority", "ca_file = \"ca.pem\"\n", `ok mesh: `)
}

// until waits until each pattern matches a finding: the engine needs time to notice a change.
func (a *natsFixture) until(name, more string, patterns ...string) {
	a.t.Helper()
	a.engine.Until(name, func(context.Context) error {
		lines := a.findings(more)
		for _, p := range patterns {
			if !slices.ContainsFunc(lines, regexp.MustCompile("^"+p).MatchString) {
				return fmt.Errorf("no finding is like %s; all:\n%s", p, strings.Join(lines, "\n"))
			}
		}
		return nil
	})
}

// TestOldServerVersions checks which versions of a server are too old.
func TestOldServerVersions(t *testing.T) {
	for version, want := range map[string]bool{"2.9.25": true, "2.13.9": true, "1.20.0": true, "2.14.0": false, "2.15.2": false, "3.0.0": false, "2.14.0-beta.1": false, "dev": false} {
		if isOlder(version, oldestServer) != want {
			t.Errorf("%s: older is %v", version, !want)
		}
	}
}
