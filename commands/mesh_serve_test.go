package commands

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/commands/config"
	"agentstateloop/mesh"
)

// running is the program running in this process, until its context ends.
type running struct {
	first string // line of what it printed
	stop  context.CancelFunc
	code  chan int
	erred *bytes.Buffer // to be read when it has ended
}

// start runs the program until it has printed a line, or ended.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, code: make(chan int, 1), erred: &bytes.Buffer{}}
	p := testProgram()
	out, in := io.Pipe()
	p.out.Stdout, p.out.Stderr = in, r.erred
	go func() {
		r.code <- p.run(ctx, append([]string{name}, args...))
		in.Close()
	}()
	lines := bufio.NewReader(out)
	r.first, _ = lines.ReadString('\n')
	r.first = strings.TrimSpace(r.first)
	go io.Copy(io.Discard, lines)
	t.Cleanup(stop)
	return r
}

// end stops it as TERM does, and fails if it does not exit 0.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if code := <-r.code; code != exitDone {
		t.Fatalf("ended with %d: %s", code, r.erred)
	}
}

// TestMeshServe: what `mesh serve` has accepted is kept when it is stopped and
// started again, and a call needs a token.
func TestMeshServe(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("# who may call\ngoulard3120 one\n@dorlange3120\ttwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"mesh", "serve", "--addr", "127.0.0.1:0", "--dir", filepath.Join(dir, "mesh"), "--tokens", tokens}

	server := start(t, args...)
	client := func(url, token string) *mesh.Client {
		return &mesh.Client{
			URL: strings.TrimPrefix(url, "mesh at "), Handle: "goulard3120",
			Token: func(context.Context) (string, error) { return token, nil },
		}
	}
	if _, err := client(server.first, "").Send(t.Context(), mesh.Message{To: "dorlange3120", Text: "hello"}); err == nil {
		t.Error("a call without a token was taken")
	}
	if _, err := client(server.first, "one").Send(t.Context(), mesh.Message{To: "dorlange3120", Text: "hello"}); err != nil {
		t.Fatal(err)
	}

	second := start(t, args...)
	if code := <-second.code; code != exitError || !strings.Contains(second.erred.String(), "another mesh is already running") {
		t.Errorf("a second server: exit %d, %s", code, second.erred)
	}
	server.end(t)

	server = start(t, args...)
	theirs := client(server.first, "two")
	theirs.Handle = "dorlange3120"
	box, err := theirs.Mailbox(t.Context(), 0)
	if err != nil || len(box.Messages) != 1 || !box.Messages[0].Proven {
		t.Errorf("after a restart the mailbox is %+v, %v", box, err)
	}
	server.end(t)
}

func TestReadTokens(t *testing.T) {
	for _, bad := range []string{"", "# nobody\n", "goulard3120\n", "goulard3120 a b\n", "Not/Me secret\n", "a one\na two\n", strings.Repeat("#", config.MaxSecret+1)} {
		if _, err := readTokens(bad); err == nil {
			t.Errorf("%.20q was taken", bad)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("a token shows in %q", err)
		}
	}
}

// HALT counts when the agents see it. A service that answers 200 to everything, as a proxy
// or another program on the port may, has halted nobody.
func TestMeshHaltIsVerified(t *testing.T) {
	run := func(h http.Handler, args ...string) (code int, output string) {
		web := httptest.NewServer(h)
		defer web.Close()
		path := writeConfig(t, strings.Replace(smallConfig, "[turn]", "state_dir = \"state\"\n[turn]", 1)+"[mesh]\nurl = \""+web.URL+"\"\n")
		var out, errs bytes.Buffer
		code = Run(t.Context(), append([]string{name, "--config", path, "mesh"}, args...), nil, &out, &errs, nil)
		return code, out.String() + errs.String()
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
