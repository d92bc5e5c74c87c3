package commands

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"agentstateloop/mesh"
)

// serveMesh serves a mesh for all, and returns its URL.
func serveMesh(b *testing.B) string {
	b.Helper()
	server, err := mesh.OpenServer(b.TempDir(), mesh.Options{Open: true})
	noError(b, err)
	b.Cleanup(func() { server.Close() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(b, err)
	web := server.HTTPServer()
	go web.Serve(listener) // ends with Close
	b.Cleanup(func() { web.Close() })
	return "http://" + listener.Addr().String()
}

// agentsOnMesh makes a folder with the configurations of that many agents, a0.toml and so
// on, which are reached through the mesh alone.
func agentsOnMesh(b *testing.B, agents int, url string) string {
	b.Helper()
	dir := b.TempDir()
	for i := range agents {
		config := fmt.Sprintf("[agent]\nhandle = \"a%d\"\nstate_dir = \"s%[1]d\"\n[mesh]\nurl = %q\n[trust]\nmesh = \"open\"\n"+
			"[turn]\nrunner = \"none\"\n[schedule]\nmode = \"none\"\n", i, url)
		noError(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("a%d.toml", i)), []byte(config), 0o600))
	}
	return dir
}
