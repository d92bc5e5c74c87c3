package commands

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestKilledListeners kills and restarts a listener again and again, without cron.
// In the end each nudge that the webhook accepted, and each nudge file that was
// written while no listener ran, is in the history (docs/design.md, "Promises" 1
// and 7). AGENTSTATELOOP_WAKES is the number of nudges, 200 by default.
func TestKilledListeners(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	dir := tempDir(t)
	a := installedAgent{dir, buildProgram(t, dir)}
	writeFiles(t, dir, map[string]string{"agent.toml": agentSection + "[turn]\nrunner = \"none\"\n" + noSchedule, "hook": "open sesame\n"})
	stderr, err := os.Create(filepath.Join(dir, "stderr")) // of the listeners
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	t.Cleanup(func() {
		if text, err := os.ReadFile(stderr.Name()); t.Failed() && err == nil {
			t.Logf("standard error of the listeners:\n%s", text)
		}
	})
	listen := func() (*exec.Cmd, string) {
		cmd := a.command(t.Context(), "listen", "--token-file", filepath.Join(dir, "hook"))
		cmd.Stderr = stderr
		_, url, _ := strings.Cut(startServer(t, cmd), " at ")
		return cmd, url
	}
	st := a.store()

	wakes := part(200, 60)
	if most := os.Getenv("AGENTSTATELOOP_WAKES"); most != "" {
		var err error
		if wakes, err = strconv.Atoi(most); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var answered []string
	recordAnswer := func(reason string) {
		mu.Lock()
		defer mu.Unlock()
		answered = append(answered, reason)
	}
	// Eight callers nudge each listener until it is killed at a random moment.
	const callers = 8
	kills := 0
	for len(answered) < wakes {
		cmd, url := listen()
		dead := make(chan struct{})
		lives := time.Duration(1+chance.IntN(max(60, wakes/100))) * time.Millisecond
		time.AfterFunc(lives, func() {
			defer close(dead)
			cmd.Process.Kill()
			cmd.Wait()
			// A program that it was about to start has its lock until that program begins.
			if err := settle(filepath.Join(dir, "state", "listen.lock")); err != nil {
				t.Error(err)
			}
		})
		var calls sync.WaitGroup
		for caller := range callers {
			calls.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-dead:
						return
					default:
					}
					if reason := fmt.Sprintf("web%d.%d.%d", kills, caller, n); postNudge(url, reason) {
						recordAnswer(reason)
					}
				}
			})
		}
		calls.Wait()
		reason := fmt.Sprintf("file%d", kills)
		if err := st.Ring("test", reason); err != nil {
			t.Fatal(err)
		}
		recordAnswer(reason)
		kills++
	}

	cmd, _ := listen()
	defer cmd.Wait()
	defer cmd.Process.Kill()
	// It takes a second. A busy disk may let each fsync wait for as long.
	for deadline := time.After(2*time.Minute + time.Duration(wakes)*10*time.Millisecond); ; {
		list, err := st.Nudges(state.State{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.New) == 0 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%d nudges were not taken by a listener that was not killed", len(list.New))
		case <-time.After(10 * time.Millisecond):
		}
	}
	taken := countNudges(t, st)
	for _, reason := range answered {
		if taken[reason] == 0 {
			t.Errorf("nudge %s was accepted and lost", reason)
		}
	}
	t.Logf("%d wakes, %d kills, none lost", len(answered), kills)
}

// nudger waits for no server that took the port of a listener that was killed.
var nudger = &http.Client{Timeout: 20 * time.Second}

// postNudge calls the webhook, and reports whether it accepted the nudge.
func postNudge(url, reason string) bool {
	req, err := http.NewRequest(http.MethodPost, url+"/nudge", strings.NewReader(fmt.Sprintf(`{"reason": %q}`, reason)))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer open sesame")
	resp, err := nudger.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusAccepted
}
