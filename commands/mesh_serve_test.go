package commands

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/commands/config"
	"agentstateloop/mesh"
)

// runningProgram is a command that runs in this process until its context ends.
type runningProgram struct {
	firstLine string // of its standard output
	stop      context.CancelFunc
	code      chan int
	stderr    *bytes.Buffer // to be read when it has ended
}

// startProgram runs a command until it has printed a line, or ended.
func startProgram(t *testing.T, args ...string) *runningProgram {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &runningProgram{stop: stop, code: make(chan int, 1), stderr: &bytes.Buffer{}}
	p := testProgram()
	out, in := io.Pipe()
	p.out.Stdout, p.out.Stderr = in, r.stderr
	go func() {
		r.code <- p.run(ctx, append([]string{name}, args...))
		in.Close()
	}()
	lines := bufio.NewReader(out)
	line, _ := lines.ReadString('\n')
	r.firstLine = strings.TrimSpace(line)
	go io.Copy(io.Discard, lines)
	t.Cleanup(stop)
	return r
}

// end stops the program as TERM does. It fails the test if the program does not exit 0.
func (r *runningProgram) end(t *testing.T) {
	t.Helper()
	r.stop()
	if code := <-r.code; code != exitDone {
		t.Fatalf("ended with %d: %s", code, r.stderr)
	}
}

// TestMeshServeKeepsMessages checks that `mesh serve` keeps its messages when it is stopped and
// started again, and that each call needs a token.
func TestMeshServeKeepsMessages(t *testing.T) {
	dir := t.TempDir()
	tokens := writeFile(t, filepath.Join(dir, "tokens"), "# the agents\ngoulard3120 one\n@dorlange3120\ttwo\n")
	args := []string{"mesh", "serve", "--addr", "127.0.0.1:0", "--dir", filepath.Join(dir, "mesh"), "--tokens", tokens}

	server := startProgram(t, args...)
	client := func(url, token string) *mesh.Client {
		return &mesh.Client{
			URL: strings.TrimPrefix(url, "mesh at "), Handle: "goulard3120",
			Token: func(context.Context) (string, error) { return token, nil },
		}
	}
	if _, err := client(server.firstLine, "").Send(t.Context(), mesh.Message{To: "dorlange3120", Text: "hello"}); err == nil {
		t.Error("a call without a token was taken")
	}
	if _, err := client(server.firstLine, "one").Send(t.Context(), mesh.Message{To: "dorlange3120", Text: "hello"}); err != nil {
		t.Fatal(err)
	}

	second := startProgram(t, args...)
	if code := <-second.code; code != exitError || !strings.Contains(second.stderr.String(), "another mesh is already running") {
		t.Errorf("a second server: exit %d, %s", code, second.stderr)
	}
	server.end(t)

	server = startProgram(t, args...)
	theirs := client(server.firstLine, "two")
	theirs.Handle = "dorlange3120"
	box, err := theirs.Mailbox(t.Context(), 0)
	if err != nil || len(box.Messages) != 1 || !box.Messages[0].Proven {
		t.Errorf("after a restart the mailbox is %+v, %v", box, err)
	}
	server.end(t)
}

// TestReadTokensRefusesMalformedFiles checks that the error does not show a token.
func TestReadTokensRefusesMalformedFiles(t *testing.T) {
	for _, bad := range []string{"", "# nobody\n", "goulard3120\n", "goulard3120 a b\n", "Not/Me secret\n", "a one\na two\n", strings.Repeat("#", config.MaxSecret+1)} {
		if _, err := readTokens(bad); err == nil {
			t.Errorf("%.20q was taken", bad)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("a token shows in %q", err)
		}
	}
}

// TestMeshHaltIsVerified checks that `mesh halt` succeeds only if the agents see the HALT. A proxy
// or another program on the port may answer 200 to every request.
func TestMeshHaltIsVerified(t *testing.T) {
	run := func(h http.Handler, args ...string) (code int, output string) {
		web := httptest.NewServer(h)
		defer web.Close()
		path := writeConfig(t, agentSection+"[turn]\ncommand = [\"./reply.sh\"]\n[mesh]\nurl = \""+web.URL+"\"\n")
		return runInProcess(t, testProgram(), append([]string{"--config", path, "mesh"}, args...)...)
	}
	always := func(body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(body))
		})
	}
	for _, c := range []struct{ body, call, want string }{
		{`{"ok": true}`, "halt", "accepted the request but reports no HALT"},
		{`{"halted": false, "messages": []}`, "halt", "accepted the request but reports no HALT"},
		{`{"halted": true, "messages": []}`, "resume", "still reports HALT"},
		{`{"halted": "yes"}`, "halt", "cannot verify the change on the mesh"},
	} {
		if code, output := run(always(c.body), c.call); code != exitError || !strings.Contains(output, c.want) {
			t.Errorf("%s: mesh %s: exit code %d\n%s", c.body, c.call, code, output)
		}
	}
	ours := mesh.NewServer(mesh.Options{Open: true})
	for _, call := range []string{"halt", "halt", "resume", "resume"} {
		if code, output := run(ours, call); code != exitDone {
			t.Errorf("mesh %s: exit code %d\n%s", call, code, output)
		}
	}
}
