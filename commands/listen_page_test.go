package commands

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pageBrowser is a browser that is logged in to the page of a listener.
type pageBrowser struct {
	t      *testing.T
	base   string
	client *http.Client
	act    string
}

// openPage logs in, and reads the act token.
func openPage(t *testing.T, base, token string) *pageBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &pageBrowser{t: t, base: base, client: &http.Client{Jar: jar}}
	if code, body := b.send("POST", "page/login", fmt.Sprintf(`{"token":%q}`, token)); code != 200 {
		t.Fatalf("login: %d %s", code, body)
	}
	var d struct {
		ActToken *string `json:"act_token"`
	}
	_, body := b.send("GET", "page/document", "")
	if err := json.Unmarshal([]byte(body), &d); err != nil || d.ActToken == nil {
		t.Fatalf("document: %v %s", err, body)
	}
	b.act = *d.ActToken
	return b
}

func (b *pageBrowser) send(method, path, body string) (code int, text string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == "POST" {
		req.Header.Set("Origin", strings.TrimSuffix(b.base, "/"))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Page-Token", b.act)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// until waits for an answer to a GET.
func (b *pageBrowser) until(path string, code int, text string) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) { // a reload of the listener reports to nobody
		got, body := b.send("GET", path, "")
		if got == code && strings.Contains(body, text) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: %d %s, want %d %s", path, got, body, code, text)
		}
	}
}

// TestListenPage checks the page of the real program: an event of another process, an act and its line
// in `history`, and a change of [listen] page.
func TestListenPage(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	program := buildProgram(t, dir)
	config := filepath.Join(dir, "agent.toml")
	const agent = "[agent]\nhandle = \"goulard3120\"\noperator = [\"you@example.com\"]\nstate_dir = \"state\"\n[turn]\nrunner = \"none\"\n[schedule]\nmode = \"none\"\n"
	writeFile(t, config, agent)
	token := writeFile(t, filepath.Join(dir, "token"), "open sesame\n")
	listener := startProgram(t, "--config", config, "listen", "--json", "--addr", "127.0.0.1:0", "--token-file", token)
	var ready listenOutput
	if err := json.Unmarshal([]byte(listener.firstLine), &ready); err != nil || ready.Page == nil || *ready.Page != ready.URL+"/" {
		t.Fatalf("listen prints %s: %v", listener.firstLine, err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program, append([]string{"--config", config}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		return string(out)
	}
	b := openPage(t, *ready.Page, "open sesame")
	resp, err := b.client.Get(b.base + "page/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	run("nudge", "--from", "backup", "--reason", "it failed")
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream has no nudge: %v", err)
		}
		if strings.HasPrefix(line, "data: ") && strings.Contains(line, "nudged by backup") {
			break
		}
	}
	if code, body := b.send("POST", "page/act", `{"agent":"goulard3120","act":"tell","text":"what are you working on?"}`); code != 200 {
		t.Fatalf("tell: %d %s", code, body)
	}
	if text := run("history"); !strings.Contains(text, `you, on the page: "what are you working on?"`) {
		t.Errorf("history: %s", text)
	}

	writeFile(t, config, agent+"[listen]\npage = \"read\"\n")
	b.until("page/document", 200, `"act_token":null`)
	if code, body := b.send("POST", "page/act", `{"agent":"goulard3120","act":"halt"}`); code != 403 || !strings.Contains(body, `[listen] page is \"read\"`) {
		t.Errorf("halt: %d %s", code, body)
	}
	writeFile(t, config, agent+"[listen]\npage = \"off\"\n")
	b.until("", 403, `the page is closed: [listen] page is "off"`)
	writeFile(t, token, "another token\n")
	b.until("page/document", 401, "your session has ended")
	listener.end(t)
	if strings.Contains(listener.stderr.String(), "sesame") {
		t.Errorf("the token is printed: %s", listener.stderr)
	}
}
