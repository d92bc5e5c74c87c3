package commands

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/state"
)

// A listener that is killed and started again throughout loses no wake: each
// nudge it answered for is in the history in the end, taken by a listener, with
// no cron at work (DESIGN 13).
func TestKilledListeners(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	program := build(t, dir)
	for file, text := range map[string]string{
		"agent.toml": "[agent]\nhandle = \"goulard3120\"\noperator = [\"operator@example.com\"]\nstate_dir = \"state\"\n[turn]\nrunner = \"none\"\n[schedule]\nmode = \"none\"\n",
		"hook":       "open sesame\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listen := func() (*exec.Cmd, string) {
		cmd := exec.Command(program, "--config", filepath.Join(dir, "agent.toml"), "listen", "--token-file", filepath.Join(dir, "hook"))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, url, _ := strings.Cut(strings.TrimSpace(line), " at ")
		return cmd, url
	}
	st := &state.Store{Dir: filepath.Join(dir, "state"), Agent: "goulard3120"}

	var mu sync.Mutex
	var answered []string
	note := func(reason string) {
		mu.Lock()
		defer mu.Unlock()
		answered = append(answered, reason)
	}
	const rounds, each = 10, 20
	for round := range rounds {
		cmd, url := listen()
		var calls sync.WaitGroup
		for n := range each {
			reason := fmt.Sprintf("r%d.%d", round, n)
			calls.Go(func() {
				if nudgeWeb(url, reason) {
					note(reason)
				}
			})
		}
		time.AfterFunc(time.Duration(chance.IntN(60))*time.Millisecond, func() { cmd.Process.Kill() })
		calls.Wait()
		cmd.Wait()
		reason := fmt.Sprintf("r%d.dead", round)
		if err := st.Ring("test", reason); err != nil {
			t.Fatal(err)
		}
		note(reason)
	}

	cmd, _ := listen()
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for deadline := time.After(30 * time.Second); ; {
		rung, err := st.Rung()
		if err != nil {
			t.Fatal(err)
		}
		if len(rung) == 0 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%d nudges lie there untaken", len(rung))
		case <-time.After(10 * time.Millisecond):
		}
	}
	taken := map[string]bool{}
	for l, err := range st.History() {
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind == state.LineNudge {
			taken[l.Reason] = true
		}
	}
	for _, reason := range answered {
		if !taken[reason] {
			t.Errorf("nudge %s was answered and is lost", reason)
		}
	}
	t.Logf("%d nudges answered, over %d kills", len(answered), rounds)
}

// nudgeWeb calls the webhook, and says whether it was answered well.
func nudgeWeb(url, reason string) bool {
	req, err := http.NewRequest(http.MethodPost, url+"/nudge", strings.NewReader(fmt.Sprintf(`{"reason": %q}`, reason)))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer open sesame")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusAccepted
}
