// Package fleettest starts the real nats-server for tests: one, or a cluster of
// three, as the plan of fleet plan starts it.
package fleettest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit"
	"agentstateloop/mesh/natsmesh"
)

// Key is the key of a user.
type Key struct{ Seed, Public string }

// NewKey makes a key.
func NewKey(t testing.TB) Key {
	t.Helper()
	seed, public, err := fleet.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return Key{seed, public}
}

// Engine is one nats-server, or a cluster of three. It ends with the test.
type Engine struct {
	Servers []*Server
	Admin   Key
	Users   map[string]Key // by handle

	t testing.TB
}

// Start starts one server with a mailbox for each handle.
func Start(t testing.TB, handles ...string) *Engine { return StartBare(t, 1, handles...).Create() }

// StartCluster starts three servers with a mailbox for each handle. Each message is stored on all
// of them.
func StartCluster(t testing.TB, handles ...string) *Engine {
	return StartBare(t, 3, handles...).Create()
}

// patience limits every wait for the servers.
const patience = 30 * time.Second

// StartBare starts this number of servers, which know the users and have no streams yet.
func StartBare(t testing.TB, servers int, handles ...string) *Engine {
	t.Helper()
	path := Program(t)
	e := &Engine{Admin: NewKey(t), Users: map[string]Key{}, t: t}
	dir := t.TempDir()
	plan := fleet.Plan{Users: map[string]string{}, Admin: e.Admin.Public}
	for _, h := range handles {
		e.Users[h] = NewKey(t)
		plan.Users[h] = e.Users[h].Public
	}
	for n := range servers {
		port, err := testkit.FreePort(besideForRoutes)
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{Name: "n" + strconv.Itoa(n+1), Addr: "127.0.0.1:" + strconv.Itoa(port), t: t, program: path, dir: dir}
		e.Servers = append(e.Servers, s)
		plan.Servers = append(plan.Servers, s.Addr)
	}
	text, err := plan.Config()
	if err != nil {
		t.Fatal(err)
	}
	lines := startLines.FindAllStringSubmatch(text, -1)
	if len(lines) != servers {
		t.Fatalf("the plan starts %d servers, want %d:\n%s", len(lines), servers, text)
	}
	if err := os.WriteFile(e.Servers[0].config(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range e.Servers {
			s.Kill()
		}
	})
	for i, s := range e.Servers {
		s.environment, s.args = strings.Fields(lines[i][1]), strings.Fields(lines[i][2])
		s.Start()
	}
	return e
}

// startLines matches the commands in a plan that start the servers: the environment and the arguments.
var startLines = regexp.MustCompile(`(?m)^#   (SERVER=\S+ )?nats-server (-c .*)$`)

// URL returns the url of the mesh.
func (e *Engine) URL() string {
	var addrs []string
	for _, s := range e.Servers {
		addrs = append(addrs, s.Addr)
	}
	return "nats://" + strings.Join(addrs, ",")
}

// key returns the key of a handle, or of the administrator for "".
func (e *Engine) key(handle string) Key {
	e.t.Helper()
	if handle == "" {
		return e.Admin
	}
	key, known := e.Users[handle]
	if !known {
		e.t.Fatalf("the engine was started without %s", handle)
	}
	return key
}

// Keys returns the public keys of all handles.
func (e *Engine) Keys() map[string]string {
	keys := map[string]string{}
	for handle, key := range e.Users {
		keys[handle] = key.Public
	}
	return keys
}

// Conn returns a connection with the key of a handle, or of the administrator for "".
func (e *Engine) Conn(handle string) *fleet.Conn {
	e.t.Helper()
	c := &fleet.Conn{URL: e.URL(), Handle: handle, Seed: seed(e.key(handle)), Timeout: patience}
	e.t.Cleanup(c.Close)
	return c
}

// Client returns the client of an agent, which knows the keys of all others.
func (e *Engine) Client(handle string) *natsmesh.Client {
	e.t.Helper()
	c := &natsmesh.Client{URL: e.URL(), Handle: handle, Host: "alpha", Seed: seed(e.key(handle)), Keys: e.Keys(), Timeout: patience}
	e.t.Cleanup(c.Close)
	return c
}

func seed(k Key) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return k.Seed, nil }
}

// Create waits until the servers answer, and makes the streams and the mailboxes.
func (e *Engine) Create() *Engine {
	e.t.Helper()
	c := e.Conn("")
	defer c.Close()
	want := fleet.Wanted{Handles: slices.Sorted(maps.Keys(e.Users)), Servers: len(e.Servers)}
	e.Until("the streams can be made", func(ctx context.Context) error {
		_, err := fleet.Create(ctx, Asker(c), want)
		return err
	})
	return e
}

// Asker adapts a connection for fleet.Create.
func Asker(c *fleet.Conn) fleet.Ask {
	return func(ctx context.Context, subject string, body []byte) ([]byte, error) {
		a, err := c.Request(ctx, subject, body, nil)
		return a.Data, err
	}
}

// Until calls try until it succeeds.
func (e *Engine) Until(what string, try func(context.Context) error) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			e.t.Fatalf("wait until %s: %v", what, err)
		}
	}
}

// Ask sends a request to the API of JetStream as the administrator, and decodes the answer into a
// value, or drops it if into is nil. It repeats the request while servers come and go.
func (e *Engine) Ask(call string, request, into any) {
	e.t.Helper()
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			e.t.Fatal(err)
		}
	}
	c := e.Conn("")
	defer c.Close()
	deletes := strings.HasPrefix(call, "STREAM.DELETE.")
	e.Until(call+" is answered", func(ctx context.Context) error {
		data, err := Asker(c)(ctx, "$JS.API."+call, body)
		switch {
		case err != nil:
			return err
		case deletes && strings.Contains(string(data), "stream not found"):
			return nil // the answer to an earlier try was lost
		case strings.Contains(string(data), `"error":`):
			return errors.New(string(data))
		case into != nil:
			return json.Unmarshal(data, into)
		}
		return nil
	})
}

// Configure changes the configuration, and restarts all servers with it.
func (e *Engine) Configure(change func(text string) string) {
	e.t.Helper()
	e.rewrite(change)
	for _, s := range e.Servers {
		s.Kill()
		s.Start()
	}
}

// Reload changes the configuration, and makes all servers load it.
func (e *Engine) Reload(change func(text string) string) {
	e.t.Helper()
	e.rewrite(change)
	for _, s := range e.Servers {
		s.signal(syscall.SIGHUP)
	}
}

func (e *Engine) rewrite(change func(text string) string) {
	e.t.Helper()
	path := e.Servers[0].config()
	text, err := os.ReadFile(path)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(change(string(text))), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

// Leader waits until a stream has a leader, and returns it.
func (e *Engine) Leader(stream string) *Server {
	e.t.Helper()
	leader := 0
	e.Until(stream+" has a leader", func(context.Context) error {
		var info struct {
			Cluster struct {
				Leader string `json:"leader"`
			} `json:"cluster"`
		}
		e.Ask("STREAM.INFO."+stream, nil, &info)
		leader = slices.IndexFunc(e.Servers, func(s *Server) bool { return s.Name == info.Cluster.Leader || len(e.Servers) == 1 })
		if leader < 0 {
			return errors.New("it has none")
		}
		return nil
	})
	return e.Servers[leader]
}

// besideForRoutes is the distance between the port of a server and its port for routes on one
// machine, as in fleet.Plan.
const besideForRoutes = 2000

const module = "github.com/nats-io/nats-server/v2"

// Program returns the path of a nats-server of the version in go.mod. Without one it skips the
// test, or with AGENTSTATELOOP_REQUIRE_REAL=1 builds the server, once for all tests, which takes a
// minute.
func Program(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil && os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		t.Skip("nats-server is not built yet: AGENTSTATELOOP_REQUIRE_REAL=1 builds it")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (string, error) {
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "agentstateloop-tests")
	path := filepath.Join(dir, "nats-server-"+strings.TrimSpace(string(version)))
	if _, err := os.Stat(path); err == nil || os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		return path, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Packages are tested side by side: the first one builds, the others wait.
	lock := flock.New(path + ".lock")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return "", err
	}
	defer lock.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if out, err := exec.Command("go", "build", "-o", path+".new", module).CombinedOutput(); err != nil {
		return "", errors.New("build nats-server: " + err.Error() + "\n" + string(out))
	}
	return path, os.Rename(path+".new", path)
})
