package fleet_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// TestPlanConfig checks the plans for one, two and three servers, on this machine and on others, and
// that nats-server accepts each configuration with its placeholders filled in.
func TestPlanConfig(t *testing.T) {
	t.Parallel()
	program := fleettest.Program(t)
	alice, bob, admin := fleettest.NewKey(t).Public, fleettest.NewKey(t).Public, fleettest.NewKey(t).Public
	for name, test := range map[string]struct {
		servers  []string
		admin    string
		url      string
		has, not []string
	}{
		"by default": {nil, admin, "nats://127.0.0.1:4222", []string{
			`listen: "127.0.0.1:4222"`, "#   nats-server -c fleet.conf\n", "sync_interval: always", "max_file_store: 20GB", "{ nkey: " + admin + " }", "for testing",
		}, []string{"cluster {", "tls {", "FILL IN"}},
		"no administrator yet": {nil, "", "nats://127.0.0.1:4222", []string{"FILL IN the administrator's key"}, nil},
		"two on this machine": {[]string{"localhost:4001", "localhost:4002"}, admin, "nats://localhost:4001,localhost:4002", []string{
			"SERVER=n2 nats-server -c fleet.conf -a localhost -p 4002 --cluster nats://localhost:6002 -sd nats/n2\n", `"nats-route://localhost:6001"`, "A cluster of two stops",
		}, []string{"tls {"}},
		"three on this machine": {[]string{"127.0.0.1:4001", "127.0.0.1:4002", "127.0.0.1:4003"}, admin, "nats://127.0.0.1:4001,127.0.0.1:4002,127.0.0.1:4003", []string{
			`"nats-route://127.0.0.1:6003"`, "no_advertise: true", `listen: "127.0.0.1:6001"`,
		}, []string{"tls {", "A cluster of two"}},
		"one elsewhere": {[]string{"n1.example.com"}, admin, "tls://n1.example.com:4222", []string{
			`listen: "0.0.0.0:4222"`, "tls {", "SERVER=n1.example.com nats-server -c fleet.conf\n",
		}, []string{"cluster {", "for testing"}},
		"two elsewhere": {[]string{"n1:4333", "n2:4333"}, admin, "tls://n1:4333,n2:4333", []string{"A cluster of two stops", "ca_file:"}, nil},
		"three elsewhere": {[]string{"n1", "n2", "n3"}, admin, "tls://n1:4222,n2:4222,n3:4222", []string{
			`listen: "0.0.0.0:6222"`, `"nats-route://n3:6222"`, "ca_file:", "All servers use this same file",
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := fleet.Plan{Servers: test.servers, Users: map[string]string{"bob": bob, "alice": alice}, Admin: test.admin}
			text, err := p.Config()
			if err != nil {
				t.Fatal(err)
			}
			url, err := p.URL()
			if err != nil || url != test.url || !strings.Contains(text, "url = \""+url+"\"") {
				t.Errorf("the url is %s, %v", url, err)
			}
			if _, err := fleet.Servers(url); err != nil {
				t.Errorf("an agent cannot use the url: %v", err)
			}
			for _, want := range test.has {
				if !strings.Contains(text, want) {
					t.Errorf("it does not have %q:\n%s", want, text)
				}
			}
			for _, bad := range test.not {
				if strings.Contains(text, bad) {
					t.Errorf("it has %q:\n%s", bad, text)
				}
			}
			checkConfig(t, program, text)
		})
	}
}

// TestPlanStarts starts one server and three servers on this machine exactly as the plan says, creates
// the assets, and replaces the key of an agent with a reload: the servers refuse the old key then.
func TestPlanStarts(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 3} {
		e := fleettest.StartBare(t, servers, "alice").Create()
		changes, err := fleet.Create(t.Context(), fleettest.Asker(e.Conn("")), fleet.Wanted{Handles: []string{"alice"}, Servers: servers, Check: true})
		if err != nil || len(changes) != len(fleet.Assets(servers))+1 {
			t.Fatalf("%d servers have %+v, %v", servers, changes, err)
		}
		for _, c := range changes {
			if c.Did != fleet.Same {
				t.Errorf("%d servers: %+v", servers, c)
			}
		}
		old, other := e.Users["alice"], fleettest.NewKey(t)
		e.Reload(func(text string) string { return strings.ReplaceAll(text, old.Public, other.Public) })
		for _, s := range e.Servers {
			e.Until(s.Name+" refuses the old key", func(ctx context.Context) error {
				if err := countAs(ctx, s, old); !isDenied(err) {
					return fmt.Errorf("it answers %v", err)
				}
				return countAs(ctx, s, other)
			})
		}
		for _, s := range e.Servers {
			if log := s.Log(); !strings.Contains(log, "Reloaded server configuration") || strings.Contains(log, "Failed to reload") {
				t.Errorf("%s of %d did not reload:\n%s", s.Name, servers, log)
			}
		}
	}
}

// countAs asks a server for the number of messages in the mailbox of alice.
func countAs(ctx context.Context, s *fleettest.Server, key fleettest.Key) error {
	c := &fleet.Conn{URL: "nats://" + s.Addr, Handle: "alice", Seed: func(context.Context) (string, error) { return key.Seed, nil }}
	defer c.Close()
	_, err := c.Count(ctx)
	return err
}

func isDenied(err error) bool {
	e, ok := errors.AsType[*fleet.Error](err)
	return ok && e.Denied
}

// checkConfig checks that nats-server accepts a configuration.
func checkConfig(t *testing.T, program, text string) {
	t.Helper()
	dir := t.TempDir()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"n1"}, NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"server.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		"ca.pem":     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		"server.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"fleet.conf": []byte(text),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-c", "fleet.conf", "-t")
	cmd.Env = append(os.Environ(), "SERVER=n1")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("nats-server refuses it: %v\n%s\n%s", err, out, text)
	}
}

// TestPlanErrors checks the errors of invalid plans, and that none quotes a seed.
func TestPlanErrors(t *testing.T) {
	seed, public, err := fleet.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	other := fleettest.NewKey(t).Public
	users := map[string]string{"alice": public}
	for want, p := range map[string]fleet.Plan{
		"at least one agent is required":     {},
		"is not a valid handle":              {Users: map[string]string{"Not*Valid": public}},
		"the key of alice is not the public": {Users: map[string]string{"alice": "U"}},
		"is a secret seed":                   {Users: map[string]string{"alice": seed}},
		"the administrator's key is not":     {Users: users, Admin: seed},
		"the administrator and alice have":   {Users: users, Admin: public},
		"alice and bob have the same key":    {Users: map[string]string{"bob": public, "alice": public}},
		"is listed twice":                    {Users: users, Admin: other, Servers: []string{"n1", "n1:4222"}},
		"cannot be mixed":                    {Users: users, Servers: []string{"n1", "127.0.0.1"}},
		"must have the same port":            {Users: users, Servers: []string{"n1:4222", "n2:4223"}},
		"is not a server name":               {Users: users, Servers: []string{"tls://n1"}},
		`"0" is not a port`:                  {Users: users, Servers: []string{"n1:0"}},
		"port 6222 is reserved":              {Users: users, Servers: []string{"n1:6222"}},
		"choose a port below":                {Users: users, Servers: []string{"127.0.0.1:64000"}},
		"would use the same port":            {Users: users, Servers: []string{"127.0.0.1:4001", "localhost:4001"}},
		"127.0.0.1:6001 and [::1]:4001":      {Users: users, Servers: []string{"127.0.0.1:6001", "[::1]:4001"}},
	} {
		text, err := p.Config()
		if err == nil || text != "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), seed[2:20]) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestRightsHaveNoWildcards checks that each right names the handle, except for the shared subjects, and
// that no right manages streams.
func TestRightsHaveNoWildcards(t *testing.T) {
	r := fleet.Rights("alice")
	everybody := regexp.MustCompile(`^(cmd\.agent\.\*\.wakeup|\$KV\.asl-mesh\.halt|\$JS\.API\.DIRECT\.GET\.KV_asl-(who|mesh)(\.>)?)$`)
	for _, subject := range append(r.Publish, r.Subscribe...) {
		if !everybody.MatchString(subject) && !strings.Contains(subject, "alice") {
			t.Errorf("%s is not alice's", subject)
		}
		if strings.HasPrefix(subject, "$JS.API.STREAM") || strings.Contains(subject, "CREATE") || strings.Contains(subject, "DELETE") {
			t.Errorf("%s manages streams", subject)
		}
	}
}
