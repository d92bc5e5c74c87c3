package commands

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/mailtest"
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

// BenchmarkNudge measures how long it takes from the start of the installed `nudge` until
// the poll that it makes asks the mailbox of the mesh, next to the start of a program that
// is empty. It reports the median and the 99th percentile, in milliseconds.
//
//	go test -bench Nudge -benchtime 300x -run '^$' ./commands
func BenchmarkNudge(b *testing.B) {
	program, emptyPath := installProgram(b), emptyProgram(b, b.TempDir())
	asked := make(chan time.Time, 64)
	mesh := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/mailbox") {
			asked <- time.Now()
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte("{}"))
	}))
	b.Cleanup(mesh.Close)
	config := filepath.Join(agentsOnMesh(b, 1, mesh.URL), "a0.toml")
	nudge := func() float64 {
		for len(asked) > 0 {
			<-asked
		}
		began := time.Now()
		if out, err := exec.Command(program, "nudge", "--config", config).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return ms((<-asked).Sub(began))
	}
	empty := func() float64 {
		began := time.Now()
		noError(b, exec.Command(emptyPath).Run())
		return ms(time.Since(began))
	}
	nudge() // registers, and wakes
	var nudges, empties []float64
	for b.Loop() {
		nudges, empties = append(nudges, nudge()), append(empties, empty())
	}
	b.ReportMetric(median(nudges), "ms-p50")
	b.ReportMetric(nudges[len(nudges)*99/100], "ms-p99") // median has sorted them
	b.ReportMetric(median(empties), "empty-ms-p50")
	b.ReportMetric(0, "ns/op")
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkPollMesh measures an empty poll, from fork to exit, with the binary that the
// README installs: without a mesh, and with one over HTTP, over NATS, and over NATS with
// TLS. They take turns. It reports the medians of processor time and of time.
//
//	go test -bench PollMesh -benchtime 200x -run '^$' ./commands
func BenchmarkPollMesh(b *testing.B) {
	const handle = "goulard3120"
	program := installProgram(b)
	mail := mailtest.StartMemory(b, mailtest.Options{Username: "goulard@example.org"})
	engine := fleettest.Start(b, handle)
	overTLS, caFile := serveTLS(b, engine.Servers[0].Addr)

	overNATS := func(url string) string { return fmt.Sprintf("[mesh]\nurl = %q\nkey_file = \"key\"\n", url) }
	variants := []*meshVariant{
		{name: "off"},
		{name: "http", section: fmt.Sprintf("[mesh]\nurl = %q\n", serveMesh(b))},
		{name: "nats", section: overNATS(engine.URL())},
		{name: "nats-tls", section: overNATS("tls://"+overTLS) + fmt.Sprintf("ca_file = %q\n", caFile)},
	}
	for _, v := range variants {
		v.dir = b.TempDir()
		writeAgent(b, v.dir, mail, "[turn]\nrunner = \"none\"\n[schedule]\nmode = \"none\"\n"+v.section)
		noError(b, os.WriteFile(filepath.Join(v.dir, "key"), []byte(engine.Users[handle].Seed), 0o600))
		v.poll(b, program) // registers
	}
	for b.Loop() {
		for _, v := range variants {
			cpu, wall := v.poll(b, program)
			v.cpu, v.wall = append(v.cpu, cpu), append(v.wall, wall)
		}
	}
	for _, v := range variants {
		b.ReportMetric(median(v.cpu), v.name+"-cpu-ms")
		b.ReportMetric(median(v.wall), v.name+"-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// meshVariant is an agent, and the times of its polls.
type meshVariant struct {
	name, section, dir string
	cpu, wall          []float64
}

// poll polls once, and returns the processor time and the time that it took, in
// milliseconds.
func (v *meshVariant) poll(b *testing.B, program string) (cpu, wall float64) {
	b.Helper()
	cmd := exec.Command(program, "--config", filepath.Join(v.dir, "agent.toml"), "poll")
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", v.name, err, out)
	}
	took := time.Since(began)
	return ms(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()), ms(took)
}

func noError(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// installProgram installs the program with the command of the README, and returns its path.
func installProgram(b *testing.B) string {
	b.Helper()
	readme, err := os.ReadFile("../README.md")
	noError(b, err)
	command := regexp.MustCompile("CGO_ENABLED=0 go install [^`]*").Find(readme)
	if command == nil {
		b.Fatal("the README does not say how to install it")
	}
	dir := b.TempDir()
	cmd := exec.Command("sh", "-c", string(command))
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "GOBIN="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", command, err, out)
	}
	return filepath.Join(dir, name)
}

// serveTLS serves a NATS server with TLS, as NATS begins it: behind the greeting. It
// returns the address, and the file of the authority.
func serveTLS(b *testing.B, server string) (addr, caFile string) {
	b.Helper()
	ca, err := mailtest.NewCA()
	noError(b, err)
	cert, err := ca.Issue("127.0.0.1")
	noError(b, err)
	caFile = filepath.Join(b.TempDir(), "ca.pem")
	noError(b, os.WriteFile(caFile, ca.PEM, 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noError(b, err)
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relayTLS(client, server, cert)
		}
	}()
	return l.Addr().String(), caFile
}

func relayTLS(client net.Conn, server string, cert tls.Certificate) {
	defer client.Close()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	greeting, err := r.ReadBytes('\n')
	if err != nil {
		return
	}
	if _, err := client.Write(bytes.Replace(greeting, []byte("{"), []byte(`{"tls_required":true,`), 1)); err != nil {
		return
	}
	secure := tls.Server(client, &tls.Config{Certificates: []tls.Certificate{cert}})
	go func() {
		_, _ = io.Copy(conn, secure)
		conn.Close()
	}()
	_, _ = io.Copy(secure, r)
}
