// Package browser drives a headless Chromium in tests, through a pipe (the Chrome DevTools
// Protocol).
package browser

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// PhoneWidth and PhoneHeight are the size of a small phone, in CSS pixels.
const PhoneWidth, PhoneHeight = 360, 800

// Browser is a running Chromium with one tab. A failure of the protocol ends the test.
type Browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	last    int
	Fetched []string // the addresses that it has asked for since the last navigation
	Console []string // warnings, errors and uncaught exceptions of the pages since then
}

// message is a command, a response or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// Start starts Chromium with one tab of the size of a phone, and ends it with the test. Without
// Chromium it skips the test, or fails it where real programs are required.
func Start(t *testing.T) *Browser {
	t.Helper()
	if underRace {
		t.Skip("the race detector says nothing about a page")
	}
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
	b := &Browser{t: t, to: to, from: bufio.NewReader(from)}
	from.SetReadDeadline(time.Now().Add(2 * time.Minute))
	t.Cleanup(func() {
		b.session = ""
		b.Call("Browser.close", nil, nil)
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
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.Call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.Call("Network.enable", nil, nil)
	b.Call("Page.enable", nil, nil)
	b.Call("Runtime.enable", nil, nil)
	b.Call("Log.enable", nil, nil)
	b.Size(PhoneWidth, PhoneHeight, true)
	return b
}

// Call sends a command and waits for its response.
func (b *Browser) Call(method string, params, result any) {
	b.t.Helper()
	b.last++
	if params == nil {
		params = struct{}{}
	}
	encoded, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	data, err := json.Marshal(message{ID: b.last, SessionID: b.session, Method: method, Params: encoded})
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
func (b *Browser) next(waitingFor string) message {
	b.t.Helper()
	data, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("%s: %v", waitingFor, err)
	}
	var m message
	if err := json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &m); err != nil {
		b.t.Fatal(err)
	}
	b.note(m)
	return m
}

// note keeps the addresses that a page asks for, and its complaints.
func (b *Browser) note(m message) {
	switch m.Method {
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		b.decode(m.Params, &sent)
		b.Fetched = append(b.Fetched, sent.Request.URL)
	case "Runtime.exceptionThrown":
		b.Console = append(b.Console, string(m.Params))
	case "Runtime.consoleAPICalled":
		var said struct{ Type string }
		if b.decode(m.Params, &said); said.Type == "error" || said.Type == "warning" || said.Type == "assert" {
			b.Console = append(b.Console, string(m.Params))
		}
	case "Log.entryAdded":
		var logged struct {
			Entry struct{ Level, Text, URL string }
		}
		if b.decode(m.Params, &logged); logged.Entry.Level == "error" || logged.Entry.Level == "warning" {
			b.Console = append(b.Console, logged.Entry.Text+" "+logged.Entry.URL)
		}
	}
}

func (b *Browser) decode(data []byte, into any) {
	b.t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		b.t.Fatal(err)
	}
}

// Size sets the size of the tab in CSS pixels.
func (b *Browser) Size(width, height int, phone bool) {
	b.t.Helper()
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 2, "mobile": phone}, nil)
}

// Scheme sets the user's color scheme for the pages: "light" or "dark".
func (b *Browser) Scheme(scheme string) {
	b.t.Helper()
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Open navigates to an address and waits for the end of the load.
func (b *Browser) Open(address string) {
	b.t.Helper()
	b.Fetched, b.Console = nil, nil
	b.Call("Page.navigate", map[string]any{"url": address}, nil)
	for b.next("load").Method != "Page.loadEventFired" {
	}
}

// Show loads a page from a file, and returns its address.
func (b *Browser) Show(page string) string {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		b.t.Fatal(err)
	}
	at := (&url.URL{Scheme: "file", Path: file}).String()
	b.Open(at)
	return at
}

// Evaluate stores the value of a JavaScript expression, or of its promise, in result.
func (b *Browser) Evaluate(expression string, result any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, got.ExceptionDetails)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(got.Result.Value, result); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

// Until evaluates an expression until it is true, for at most a minute.
func (b *Browser) Until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		var is bool
		if b.Evaluate("Boolean("+expression+")", &is); is {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("never true: %s", expression)
		}
		time.Sleep(20 * time.Millisecond) // the page changes by itself, and cannot call the test
	}
}

// Picture returns the page as a PNG, from its top to its bottom.
func (b *Browser) Picture() []byte {
	b.t.Helper()
	return b.picture(map[string]any{"format": "png", "captureBeyondViewport": true})
}

// View returns the visible part of the page as a PNG.
func (b *Browser) View() []byte {
	b.t.Helper()
	return b.picture(map[string]any{"format": "png"})
}

func (b *Browser) picture(params map[string]any) []byte {
	b.t.Helper()
	var shot struct{ Data string }
	b.Call("Page.captureScreenshot", params, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// keys are the key events that Press knows, with their codes.
var keys = map[string]int{"Enter": 13, "Escape": 27, "Tab": 9, "Shift+Tab": 9, "Space": 32, "ArrowRight": 39, "ArrowLeft": 37}

// Press presses and releases a key.
func (b *Browser) Press(key string) {
	b.t.Helper()
	code, known := keys[key]
	if !known {
		b.t.Fatalf("unknown key %q", key)
	}
	name, shift := strings.CutPrefix(key, "Shift+")
	event := map[string]any{"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code}
	if shift {
		event["modifiers"] = 8
	}
	switch name {
	case "Enter":
		event["text"] = "\r"
	case "Space":
		event["text"], event["key"] = " ", " "
	}
	b.Call("Input.dispatchKeyEvent", event, nil)
	event["type"] = "keyUp"
	delete(event, "text")
	b.Call("Input.dispatchKeyEvent", event, nil)
}

// Type types a text where the focus is.
func (b *Browser) Type(text string) {
	b.t.Helper()
	b.Call("Input.insertText", map[string]any{"text": text}, nil)
}

// Click scrolls to the first element that a selector finds, and clicks it with the mouse.
func (b *Browser) Click(selector string) {
	b.t.Helper()
	quoted, err := json.Marshal(selector)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Until("document.querySelector(" + string(quoted) + ")")
	var at struct{ X, Y float64 }
	b.Evaluate("(() => { const n = document.querySelector("+string(quoted)+"); n.scrollIntoView({block: 'center'}); const r = n.getBoundingClientRect(); return {x: r.x + r.width / 2, y: r.y + r.height / 2} })()", &at)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.Call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	}
}
