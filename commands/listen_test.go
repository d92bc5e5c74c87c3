package commands

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/state"
)

// TestListen nudges the agent through the webhook. A second listener exits with
// 75. The first one exits with 0 when its context ends.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.toml")
	hook := filepath.Join(dir, "hook")
	for path, text := range map[string]string{
		config: smallConfig + "[schedule]\nmode = \"none\"\n",
		hook:   "open sesame\n",
	} {
		text = strings.Replace(text, "[turn]", "state_dir = \"state\"\n[turn]", 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener := start(t, "listen", config, "--token-file", hook)
	first, url, ok := strings.Cut(listener.first, " at ")
	if !ok || first != "listening for 1 agent" {
		listener.stop()
		t.Fatalf("printed %q, ended with %d: %s", listener.first, <-listener.code, listener.erred)
	}

	second := start(t, "listen", config)
	if code := <-second.code; code != exitBusy || !strings.Contains(second.erred.String(), "another listener is already running") {
		t.Errorf("a second listener: exit %d, %s", code, second.erred)
	}

	req, err := http.NewRequest(http.MethodPost, url+"/nudge", strings.NewReader(`{"from": "test"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer open sesame")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("the webhook answered %s, want 202", resp.Status)
	}
	listener.end(t)

	a, err := testLoader().Load(config)
	if err != nil {
		t.Fatal(err)
	}
	rung, err := a.Store.Nudges()
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Store.Read()
	if err != nil {
		t.Fatal(err)
	}
	if s.Phase != state.PREP && len(rung) == 0 {
		t.Error("the nudge was not polled, and is not in nudges/")
	}
}
