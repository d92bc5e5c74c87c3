package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/mailtest"
)

// TestInitTriesTheMeshOverNATS asks again for the URL and the key of a mesh over NATS,
// whose servers know another key.
func TestInitTriesTheMeshOverNATS(t *testing.T) {
	t.Parallel()
	engine := fleettest.Start(t, "agent")
	dir, closed := t.TempDir(), mailtest.StartNobody(t)
	key := func(name, seed string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(seed+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wrong, right := fleettest.NewKey(t), engine.Users["agent"]
	const question = "the file for the agent's mesh key (created if it is missing)"
	d := startInitOnline(t, dir, "--preset", "none", "--runner", "none", "--handle", "agent", "--mesh-url", "nats://"+closed)
	d.types(question+" ["+filepath.Join(dir, "agent.nk")+"]", key("bad", "my-password"))
	d.says("it is not the seed of a user's nkey", "hint: ")
	d.types(keep, "")
	d.types(question+" ["+filepath.Join(dir, "bad")+"]", key("wrong", wrong.Seed))
	d.says("trying nats://"+closed, "connection refused", "hint: is nats-server running, and the url right?")
	d.types(keep, "")
	d.types("the URL of the mesh [nats://"+closed+"]", "nats://n1.example.com")
	d.says("would send messages unencrypted")
	d.types(keep, "")
	d.types("the URL of the mesh [nats://n1.example.com]", engine.URL())
	d.says("trying "+engine.URL(), "it refuses the key", "hint: the servers must know this agent's key: pass agent="+wrong.Public+" to `agentstateloop fleet plan`")
	d.types(keep, "")
	d.types(question+" ["+filepath.Join(dir, "wrong")+"]", key("right", right.Seed))
	d.says("trying " + engine.URL() + " …\n")
	d.ends(exitDone)
	if text := readFile(t, d.config()); !strings.Contains(text, `key_file = "~/right"`) || !strings.Contains(text, engine.URL()) {
		t.Errorf("the key and the url are not in\n%s", text)
	}
	if said := d.said.String() + d.printed.String(); strings.Contains(said, right.Seed) || strings.Contains(said, "my-password") || !strings.Contains(said, "\n  agent="+right.Public+"\n") {
		t.Errorf("it said\n%s", said)
	}
}

// TestInitMakesAKey checks that a key that is made at a terminal is not tried, and is
// written with the configuration.
func TestInitMakesAKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startInitOnline(t, dir, "--preset", "none", "--runner", "none", "--handle", "agent", "--mesh-url", "nats://"+mailtest.StartNobody(t))
	d.types("["+filepath.Join(dir, "agent.nk")+"]", "")
	if said := d.ends(exitDone); strings.Contains(said, "trying nats") {
		t.Errorf("it said %s", said)
	}
	seed := strings.TrimSpace(readFile(t, filepath.Join(dir, "agent.nk")))
	if said := d.said.String() + d.printed.String(); !strings.HasPrefix(seed, "SU") || strings.Contains(said, seed) {
		t.Errorf("the key is %q, and it said\n%s", seed, said)
	}
}
