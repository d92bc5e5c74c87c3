package commands

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/state"
)

// handoverSteps are the calls that send a file to another agent and another one back, in their order.
var handoverSteps = []string{
	"PUT /blob/", "POST /message", "GET /blob/", "DELETE /mailbox/beta/",
	"PUT /blob/", "POST /message", "GET /blob/", "DELETE /mailbox/alpha/",
}

// TestKilledFileHandover has one agent ask another with a file and a field, on a real mesh. At one
// of the calls for that, the test kills the calling poll and the mesh, before the mesh has received
// the call or after it has answered. The polls that follow finish the handover: the file comes back
// with the same bytes, and the field with its value.
func TestKilledFileHandover(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	program := buildProgram(t, t.TempDir())
	// Each call has both cases, on the way there and back.
	after := []bool{false, true, false, true, true, false, true, false}
	for step, call := range handoverSteps {
		if step%part(1, 2) != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%d %s after %v", step+1, strings.ReplaceAll(call, "/", ""), after[step]), func(t *testing.T) {
			t.Parallel()
			testKillAtStep(t, program, step, after[step])
		})
	}
}

// killPoint is a proxy of a mesh. It calls kill once, at one of the steps, and then
// closes the connection without an answer.
type killPoint struct {
	mesh  *httputil.ReverseProxy
	after bool
	kill  func()

	mu   sync.Mutex
	left []string // the steps before the kill, and the one of the kill
}

// due reports whether a call is the one of the kill.
func (k *killPoint) due(r *http.Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.left) == 0 || !strings.HasPrefix(r.Method+" "+r.URL.Path, k.left[0]) {
		return false
	}
	k.left = k.left[1:]
	return len(k.left) == 0
}

func (k *killPoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !k.due(r) {
		k.mesh.ServeHTTP(w, r)
		return
	}
	if k.after {
		k.mesh.ServeHTTP(discardedResponse{http.Header{}}, r)
	}
	k.kill()
	panic(http.ErrAbortHandler)
}

// discardedResponse takes an answer and drops it.
type discardedResponse struct{ header http.Header }

func (u discardedResponse) Header() http.Header       { return u.header }
func (discardedResponse) Write(p []byte) (int, error) { return len(p), nil }
func (discardedResponse) WriteHeader(int)             {}

func testKillAtStep(t *testing.T, program string, step int, after bool) {
	dir := tempDir(t)
	var mu sync.Mutex // guards the processes that a kill ends
	var server, poll *exec.Cmd
	killed, met := false, false
	serve := func(addr string) (url string) {
		cmd := exec.Command(program, "mesh", "serve", "--open", "--addr", addr, "--dir", filepath.Join(dir, "mesh"))
		line := startServer(t, cmd)
		mu.Lock()
		server = cmd
		mu.Unlock()
		return strings.TrimPrefix(line, "mesh at ")
	}
	address, err := url.Parse(serve("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	point := &killPoint{mesh: httputil.NewSingleHostReverseProxy(address), after: after, left: handoverSteps[:step+1]}
	point.mesh.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	point.kill = func() {
		mu.Lock()
		defer mu.Unlock()
		killed = true
		server.Process.Kill()
		if poll != nil {
			poll.Process.Kill()
		}
	}
	front := httptest.NewServer(point)
	t.Cleanup(front.Close)

	s := &meshAgents{t: t, program: program, url: front.URL, dirs: map[string]string{}}
	s.add("alpha", `
if grep -q 'You asked' prompt; then
	cp "$AGENTSTATELOOP_CONTEXT/reports/1/back.bin" got.bin && grep '"size":' prompt >field
	echo done
	exit
fi
agentstateloop ask beta 'send it back' --file there.bin --field size:integer
`, "beta")
	s.add("beta", `
cp "$AGENTSTATELOOP_CONTEXT/attachments/there.bin" back.bin &&
agentstateloop submit --file back.bin --field size:=$(wc -c <back.bin)
`, "alpha")
	content := bytes.Repeat([]byte{0, 1, 2, 253, 254, 255, '\n'}, 10_000)
	writeFile(t, filepath.Join(s.dirs["alpha"], "there.bin"), string(content))
	s.run("alpha", "tell", "--no-wait", "go")
	deadline := time.Now().Add(time.Minute)
	for n := 0; time.Now().Before(deadline); n++ {
		got, _ := os.ReadFile(filepath.Join(s.dirs["alpha"], "field"))
		if strings.Contains(string(got), fmt.Sprintf(`"size":%d`, len(content))) {
			break
		}
		handle := []string{"alpha", "beta"}[n%2]
		cmd := s.agent(handle).command(t.Context(), "poll") // by hand: it tries all pending messages at once
		mu.Lock()
		err := cmd.Start()
		poll = cmd
		mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // it may be killed, or find the mesh dead
		mu.Lock()
		poll = nil
		dead := killed
		killed = false
		mu.Unlock()
		if dead {
			met = true
			server.Wait()
			serve(address.Host)
		}
	}
	for _, handle := range []string{"beta", "alpha"} {
		ended := map[string]int{}
		for _, task := range s.tasks(handle) {
			if ended[task.Key]++; ended[task.Key] > 1 || task.Outcome != state.Success {
				t.Errorf("%s's task, the %d. of its message: %+v", handle, ended[task.Key], task)
			}
		}
		if len(ended) == 0 || handle == "alpha" && len(ended) > 1 {
			t.Errorf("%s ended %v", handle, ended)
		}
	}
	got, err := os.ReadFile(filepath.Join(s.dirs["alpha"], "got.bin"))
	if err != nil || sha256.Sum256(got) != sha256.Sum256(content) {
		t.Errorf("%d bytes came back of %d: %v", len(got), len(content), err)
	}
	if !met {
		t.Error("the step of the test did not come, so it killed no process")
	}
}
