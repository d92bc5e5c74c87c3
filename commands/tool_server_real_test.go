package commands

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"agentstateloop/internal/testkit"
)

// TestRealToolServers runs the stories of testdata/real with MCP servers from npm:
//
//	$CLIS     the folder that has their programs
//	$MODULES  the folder with all that these need
//	$FAR      the address of server-everything by streamable HTTP, behind a check of
//	          the token in the file "far.token"
func TestRealToolServers(t *testing.T) {
	needRealProgram(t, "mcp-server-filesystem")
	everything := needRealProgram(t, "mcp-server-everything")
	clis := filepath.Dir(everything)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/real",
		Setup: func(env *testscript.Env) error {
			if err := setUp(env, t.TempDir()); err != nil {
				return err
			}
			env.Setenv("CLIS", clis)
			env.Setenv("MODULES", filepath.Dir(clis))
			env.Setenv("FAR", startFarServer(t, everything))
			return os.WriteFile(filepath.Join(env.WorkDir, "far.token"), []byte(farToken+"\n"), 0o600)
		},
		RequireUniqueNames: true,
		Cmds:               scriptCommands(),
	})
}

const farToken = "far-token-0123456789"

// startFarServer starts server-everything with streamable HTTP, behind a proxy that lets only
// requests with the token pass, and returns the proxy's address.
func startFarServer(t *testing.T, program string) string {
	t.Helper()
	free, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free)
	cmd := exec.Command(program, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	target := &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // the server of npm has no stable output when it listens
		res, err := http.Get(target.String())
		if err == nil {
			res.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("server-everything does not listen: %v", err)
		}
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); token != farToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go front.Serve(listener)
	t.Cleanup(func() { front.Close() })
	return "http://" + listener.Addr().String() + "/mcp"
}
