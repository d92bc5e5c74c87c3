package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"agentstateloop/internal/testkit/fleettest"
)

type engineKey struct{}

// TestStoriesOverNATS runs the stories of testdata/nats on a real nats-server:
//
//	alpha/agent.toml, beta/agent.toml  goulard3120 and dorlange3120, with mail, who know each other's keys
//	alpha/agent.sh, beta/agent.sh      their turns
//	alpha/secret, beta/secret          their passwords
//	engine stop, engine start          stops and starts the server
//	$URL                               its url
//	nats-server                        is in the PATH
func TestStoriesOverNATS(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/nats/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			e := fleettest.Start(t, "goulard3120", "dorlange3120")
			printed, bin := t.TempDir(), t.TempDir()
			if err := os.Symlink(fleettest.Program(t), filepath.Join(bin, "nats-server")); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { checkJSONRuns(t, printed) })
			testscript.Run(t, testscript.Params{
				Files: []string{file},
				Setup: func(env *testscript.Env) error { return setUpNATS(env, e, printed, bin) },
				Cmds:  scriptCommands(),
			})
		})
	}
}

// setUpNATS makes the world of two agents on an engine.
func setUpNATS(env *testscript.Env, e *fleettest.Engine, printed, bin string) error {
	if err := setUp(env, printed); err != nil {
		return err
	}
	env.Values[engineKey{}] = e
	env.Setenv("URL", e.URL())
	env.Setenv("PATH", bin+":"+env.Getenv("PATH"))
	base, err := os.ReadFile(filepath.Join(env.WorkDir, "mail.toml"))
	if err != nil {
		return err
	}
	files := map[string]string{}
	for host, handle := range map[string]string{"alpha": "goulard3120", "beta": "dorlange3120"} {
		peer := "dorlange3120"
		if handle == peer {
			peer = "goulard3120"
		}
		config := regexp.MustCompile(`(?s)\[mesh\].*`).ReplaceAllString(string(base), "")
		config = strings.NewReplacer("goulard3120", handle, "./reply.sh", "./agent.sh", `"./crontab"`, `"../crontab"`, `"ca.pem"`, `"../ca.pem"`, "mesh = \"open\"\n", "").Replace(config)
		files[host+"/agent.toml"] = config + fmt.Sprintf("[mesh]\nurl = %q\nkey_file = \"key\"\npeers = [%q]\nkeymaster = %[2]q\n[mesh.keys]\n%[2]s = %[3]q\n",
			e.URL(), peer, e.Users[peer].Public)
		files[host+"/key"], files[host+"/secret"] = e.Users[handle].Seed+"\n", env.Values[worldKey{}].(*world).mail.Password+"\n"
		if err := os.MkdirAll(filepath.Join(env.WorkDir, host), 0o700); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(env.WorkDir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// scriptEngine: engine stop, engine start
func scriptEngine(ts *testscript.TestScript, args []string) {
	server := ts.Value(engineKey{}).(*fleettest.Engine).Servers[0]
	switch args[0] {
	case "stop":
		server.Kill()
	case "start":
		server.Start()
	default:
		ts.Fatalf("usage: engine stop, or engine start")
	}
}
