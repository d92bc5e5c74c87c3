package markdown_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/mail/markdown"
)

var screenshots = flag.String("screenshots", "", "a folder for pictures of the pages as a phone shows them")

// The width and height of a small phone, in CSS pixels.
const phoneWidth, phoneHeight = 360, 800

// browser is a headless Chromium, driven through a pipe (the Chrome DevTools Protocol).
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	last    int
	fetched []string // the addresses that it has asked for
}

// message is a command, a response or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal("chromium is required")
		}
		t.Skip("chromium is not installed")
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--user-data-dir="+filepath.Join(home, "profile"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home)
	cmd.ExtraFiles = []*os.File{theirs, theirOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	theirOut.Close()
	b := &browser{t: t, to: to, from: bufio.NewReader(from)}
	from.SetReadDeadline(time.Now().Add(2 * time.Minute))
	t.Cleanup(func() {
		b.session = ""
		b.call("Browser.close", nil, nil)
		to.Close()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
		from.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.call("Network.enable", nil, nil)
	b.call("Page.enable", nil, nil)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": phoneWidth, "height": phoneHeight, "deviceScaleFactor": 2, "mobile": true}, nil)
	return b
}

// call sends a command and waits for its response.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.last++
	if params == nil {
		params = struct{}{}
	}
	data, err := json.Marshal(message{ID: b.last, SessionID: b.session, Method: method, Params: params})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(data, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		m := b.next(method)
		if m.ID != b.last {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

// next reads a response or an event.
func (b *browser) next(waitingFor string) message {
	b.t.Helper()
	data, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("%s: %v", waitingFor, err)
	}
	var m message
	if err := json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &m); err != nil {
		b.t.Fatal(err)
	}
	if m.Method == "Network.requestWillBeSent" {
		params, _ := json.Marshal(m.Params)
		var sent struct{ Request struct{ URL string } }
		json.Unmarshal(params, &sent)
		b.fetched = append(b.fetched, sent.Request.URL)
	}
	return m
}

// show loads a page and waits for the end of the load.
func (b *browser) show(page, scheme string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	file := filepath.Join(b.t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.fetched = nil
	at := (&url.URL{Scheme: "file", Path: file}).String()
	b.call("Page.navigate", map[string]any{"url": at}, nil)
	for b.next("load").Method != "Page.loadEventFired" {
	}
	for _, f := range b.fetched {
		if f != at {
			b.t.Errorf("the page fetches %s", f)
		}
	}
}

func (b *browser) evaluate(expression string, result any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, got.ExceptionDetails)
	}
	if err := json.Unmarshal(got.Result.Value, result); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

func (b *browser) picture(name string) {
	if *screenshots == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// measure reports whether a page is wider than the phone, and lists each text whose size or
// contrast is too low.
const measure = `(() => {
	const bad = [];
	const page = document.documentElement;
	if (page.scrollWidth > innerWidth) bad.push("the page is " + page.scrollWidth + " pixels wide");
	const scrolls = e => e && (getComputedStyle(e).overflowX == "auto" || scrolls(e.parentElement));
	const light = c => { const [r, g, b] = c.match(/[\d.]+/g).map(Number); return (0.2126*r + 0.7152*g + 0.0722*b) / 255; };
	const dark = matchMedia("(prefers-color-scheme: dark)").matches;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; n = walker.nextNode(); ) {
		if (!n.data.trim()) continue;
		const style = getComputedStyle(n.parentElement), range = document.createRange();
		range.selectNodeContents(n);
		const what = n.data.trim().slice(0, 30);
		if (parseFloat(style.fontSize) < 14) bad.push(style.fontSize + ": " + what);
		for (const box of range.getClientRects())
			if (!scrolls(n.parentElement) && (box.right > innerWidth || box.left < 0)) bad.push("out of sight: " + what);
		const l = light(style.color);
		if (n.parentElement.closest("a") == null && (dark ? l < 0.7 : l > 0.3)) bad.push(style.color + ": " + what);
	}
	return bad;
})()`

// TestPageOnPhone renders pages in Chromium at the width of a small phone, in the light and the
// dark mode.
func TestPageOnPhone(t *testing.T) {
	b := startBrowser(t)
	files, err := filepath.Glob("testdata/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no pages", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page, ok := markdown.HTML(string(text))
		if !ok {
			t.Errorf("%s has no HTML", file)
			continue
		}
		for _, scheme := range []string{"light", "dark"} {
			name := fmt.Sprintf("%s-%s", strings.TrimSuffix(filepath.Base(file), ".md"), scheme)
			b.show(page, scheme)
			var bad []string
			if b.evaluate(measure, &bad); len(bad) > 0 {
				t.Errorf("%s: %q", name, bad)
			}
			var scripts int
			if b.evaluate("document.scripts.length + document.images.length + document.querySelectorAll('link,iframe,form,input,video,audio,object,svg').length", &scripts); scripts != 0 {
				t.Errorf("%s: %d forbidden elements", name, scripts)
			}
			b.picture(name)
		}
	}
}
