package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/fleet/seat"
	"agentstateloop/mesh/natsmesh"
)

const natsMesh = smallConfig + `
[mesh]
url = "tls://n1.example.com, n2.example.com:4223"
key_file = "goulard.nk"
peers = ["dorlange3120"]
[mesh.keys]
dorlange3120 = "PEER"
`

// peerKey is the public key of a peer.
const peerKey = "UCM7NCELPW6QCNTXFOYN4FYZPPWUEXKEEMM4THICARGAYZRTOXM3XIPG"

// TestNATSMeshSettings checks the client and the policy of a mesh over NATS.
func TestNATSMeshSettings(t *testing.T) {
	a := mustLoad(t, strings.Replace(natsMesh, "PEER", peerKey, 1))
	c, ok := a.Mesh.Carrier.(*natsmesh.Client)
	if !ok || c.URL != "tls://n1.example.com:4222,tls://n2.example.com:4223" || c.Handle != a.Handle || c.Host == "" || c.Seed == nil || len(c.Keys) != 1 {
		t.Errorf("%T %+v", a.Mesh.Carrier, a.Mesh.Carrier)
	}
	if !a.Mesh.Paces || !a.Policy.PacesMesh || a.Mesh.Open {
		t.Errorf("%+v, policy %v", a.Mesh, a.Policy.PacesMesh)
	}
}

// TestNATSMeshErrors checks that each error names the key, and shows no secret.
func TestNATSMeshErrors(t *testing.T) {
	const servers, file = `tls://n1.example.com, n2.example.com:4223`, `key_file = "goulard.nk"`
	for _, test := range []struct{ old, new, want string }{
		{"tls://n1.example.com", "nats://n1.example.com", `mesh.url: .* unencrypted`},
		{"tls://n1.example.com", "tls://you:hush@n1.example.com", `mesh.url: .* not supported`},
		{servers, "tls://n1.example.com,nats://127.0.0.1", `mesh.url: .* not both tls and nats`},
		{servers, "tls://n1.example.com,n2/path", `mesh.url: .* is not a server`},
		{servers, "http://127.0.0.1:8801", `mesh.key_file: .* mesh over NATS`},
		{servers, "ftp://127.0.0.1:8801", `mesh.url: .* not a mesh URL`},
		{file, "", `mesh.key_file: is missing`},
		{file, "key_file = \"a\"\nkey_env = \"B\"", `mesh: 2 of key_file`},
		{file, "key_file = \"a\"\ntoken_file = \"b\"", `mesh.token_file: .* mesh over HTTP`},
		{"[mesh.keys]", "[mesh.paths]\nmessage = \"/m\"\n[mesh.keys]", `mesh.paths: .* mesh over HTTP`},
		{"PEER", "UCF7", `mesh.keys.dorlange3120: .* is not a public key`},
		{"PEER", "SUACF7", `mesh.keys.dorlange3120: .* secret`},
		{"\ndorlange3120 =", "\ngoulard3120 =", `mesh.keys.goulard3120: .* is this agent`},
		{"\ndorlange3120 =", "\n\"a b\" =", `not a valid handle`},
	} {
		text := strings.Replace(strings.Replace(natsMesh, test.old, test.new, 1), "PEER", peerKey, 1)
		got := wantError(t, text, test.want, "")
		if strings.Contains(got, "SUACF7") || strings.Contains(got, "hush") {
			t.Errorf("a secret is in %q", got)
		}
	}
}

// TestTheTableOfAFleetIsMissing refuses a directory of a fleet without [fleet]: another host may act
// for the agent.
func TestTheTableOfAFleetIsMissing(t *testing.T) {
	dir := t.TempDir()
	text := strings.Replace(strings.Replace(natsMesh, "PEER", peerKey, 1), "[agent]", "[agent]\nstate_dir = \""+dir+"\"", 1)
	mustLoad(t, text)
	if err := os.WriteFile(filepath.Join(dir, seat.RecordFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, text, `fleet: is missing`, "fleet leave")
	if a := mustLoad(t, text+"[fleet]\n"); a.Seat == nil || a.Store.Arbiter == nil || !a.Schedule.EveryMinute {
		t.Errorf("with the table: seat %v, schedule %+v", a.Seat, a.Schedule)
	}
}
