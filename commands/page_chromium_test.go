package commands

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/browser"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// pageToken is the token of the listener in these tests.
const pageToken = "open sesame 0123456789"

// pageClaude is an agent with claude's stream. The text of the message says what it does.
const pageClaude = `#!/bin/sh
PATH=%s:$PATH
prompt=$(cat)
text=$(echo "$prompt" | sed -n '/^<message [a-z0-9]*>$/,/^<\/message [a-z0-9]*>$/p')
say() { printf '{"type":"result","subtype":"success","result":"%%s","session_id":"s1","total_cost_usd":0.25}\n' "$1"; }
event() { printf '{"type":"assistant","message":{"content":[%%s]},"session_id":"s1"}\n' "$1"; }
echo '{"type":"system","subtype":"init","session_id":"s1","model":"m"}'
case $prompt in *'They chose: yes'*)
	say 'yes was chosen'
	exit
	;;
esac
case $text in
*'tidy up'*)
	event '{"type":"tool_use","id":"t1","name":"Bash"}'
	{
		echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}'
		echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
		echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"approve","arguments":{"tool_name":"Bash","input":{"command":"rm -rf old"},"tool_use_id":"t1"}}}'
	} | agentstateloop mcp --approve >decision
	grep -q 'updatedInput' decision && touch removed
	say 'done'
	;;
*'ask me'*)
	agentstateloop ask --operator 'May I delete the old backups?' --option yes --option no >/dev/null
	say ''
	;;
*'take your time'*)
	event '{"type":"thinking","thinking":"hm"}'
	event '{"type":"tool_use","id":"t1","name":"Grep"}'
	while [ ! -e go ]; do sleep 0.05; done
	event '{"type":"text","text":"half of it"}'
	while [ ! -e gone ]; do sleep 0.05; done
	say 'took my time'
	;;
*) say 'you said something' ;;
esac
`

// pageWorld is a listener of the real program, and a browser that shows its page.
type pageWorld struct {
	*browser.Browser
	t      *testing.T
	agent  installedAgent
	mail   *mailtest.Servers
	listen *exec.Cmd
	url    string
	addr   string
}

// startPage starts the listener of an agent with mail, and the browser.
func startPage(t *testing.T) *pageWorld {
	b := browser.Start(t)
	b.Call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, nil)
	w := &pageWorld{Browser: b, t: t, mail: mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"}), addr: "127.0.0.1:0"}
	w.agent = newInstalledAgent(t, w.mail, "[turn]\nrunner = \"claude\"\napprove = true\ncommand = [\"./claude.sh\"]\n"+noSchedule)
	writeFiles(t, w.agent.dir, map[string]string{"token": pageToken + "\n"})
	if err := testkit.WriteProgram(filepath.Join(w.agent.dir, "claude.sh"), fmt.Sprintf(pageClaude, w.agent.dir)); err != nil {
		t.Fatal(err)
	}
	w.agent.poll(t)
	w.start()
	t.Cleanup(func() {
		w.touch("go", "gone")
		w.kill()
		w.agent.waitForProcesses()
	})
	return w
}

// start starts the listener, again at the same address.
func (w *pageWorld) start() {
	w.t.Helper()
	w.listen = w.agent.command(w.t.Context(), "listen", "--addr", w.addr, "--token-file", filepath.Join(w.agent.dir, "token"))
	line := startServer(w.t, w.listen)
	_, w.url, _ = strings.Cut(line, " at ")
	w.addr = strings.TrimPrefix(w.url, "http://")
}

func (w *pageWorld) kill() {
	w.listen.Process.Kill()
	w.listen.Wait()
}

func (w *pageWorld) touch(names ...string) {
	for _, name := range names {
		writeFile(w.t, filepath.Join(w.agent.dir, name), "")
	}
}

// receive delivers a mail of the operator, with more fields, each with CRLF.
func (w *pageWorld) receive(subject, fields, text string) {
	w.t.Helper()
	raw := fmt.Sprintf("From: operator@example.com\r\nSubject: @goulard3120 %s\r\nMessage-ID: <%d@example.com>\r\nContent-Type: text/plain; charset=utf-8\r\n%s\r\n%s\r\n",
		subject, time.Now().UnixNano(), fields, text)
	if _, err := w.mail.Append([]byte(raw), time.Now()); err != nil {
		w.t.Fatal(err)
	}
}

// shows waits for a text on the page.
func (w *pageWorld) shows(text string) {
	w.t.Helper()
	w.Until(fmt.Sprintf("document.getElementById('page').innerText.includes(%q)", text))
}

// section waits for a text in a part of the page.
func (w *pageWorld) section(id, text string) {
	w.t.Helper()
	w.Until(fmt.Sprintf("(document.querySelector('.part-%s, .%[1]s') || {innerText: ''}).innerText.includes(%q)", id, text))
}

// confirm waits a moment, as a person does, and clicks the button that carries out an act.
func (w *pageWorld) confirm() {
	w.t.Helper()
	w.Until("document.querySelector('form.confirm [type=submit]')")
	w.think()
	w.Click("form.confirm [type=submit]")
}

// think waits as long as a person before a confirmation.
func (w *pageWorld) think() {
	time.Sleep(350 * time.Millisecond) // the page ignores the second click of a double click
}

// history waits until history prints a text.
func (w *pageWorld) history(text string) {
	w.t.Helper()
	out := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // another process writes it
		var code int
		if out, code, _ = w.agent.run(w.t.Context(), "history"); code == 0 && strings.Contains(out, text) {
			return
		}
	}
	w.t.Fatalf("the history never has %q:\n%s", text, out)
}

func (w *pageWorld) state() state.State {
	w.t.Helper()
	s, err := w.agent.store().Read()
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// logIn types the token.
func (w *pageWorld) logIn() {
	w.t.Helper()
	w.Until("document.activeElement?.id == 'token'")
	w.Type(pageToken)
	w.Press("Enter")
	w.Until("document.querySelector('.link').textContent == 'Live'")
}

// quiet fails the test for each complaint of the page that expected does not allow, and if it fetched
// something from elsewhere.
func (w *pageWorld) quiet(expected ...string) {
	w.t.Helper()
	for _, line := range w.Console {
		allowed := false
		for _, part := range expected {
			allowed = allowed || strings.Contains(line, part)
		}
		if !allowed {
			w.t.Errorf("the console has: %s", line)
		}
	}
	for _, address := range w.Fetched {
		if !strings.HasPrefix(address, w.url+"/") {
			w.t.Errorf("fetched from elsewhere: %s", address)
		}
	}
}

const (
	// unauthorized is what Chromium itself notes about the first request without a session.
	unauthorized = "the server responded with a status of 401"
	// unreachable is what it notes while the listener is dead.
	unreachable = "net::ERR_"
)

// TestPageInChromium drives the page of the real program: what it shows after real events, and each
// act by clicking, with its effect on the agent.
func TestPageInChromium(t *testing.T) {
	t.Parallel()
	w := startPage(t)
	w.Open(w.url + "/")

	// The form for the token.
	w.Until("document.activeElement?.id == 'token'")
	w.Type("wrong")
	w.Press("Enter")
	w.Until("document.querySelector('.login .error') && document.activeElement?.id == 'token'")
	var login struct{ Type, Complete, Error, Cookie, Value string }
	w.Evaluate("({type: token.type, complete: token.autocomplete, error: document.querySelector('.error').textContent, cookie: document.cookie})", &login)
	if login.Type != "password" || login.Complete != "current-password" || !strings.Contains(login.Error, "token") || login.Cookie != "" {
		t.Errorf("the form for the token: %+v", login)
	}
	w.Press("Enter") // the wrong token is selected, and asked for once more
	w.Until("document.activeElement?.id == 'token' && !document.querySelector('[type=submit]').disabled")
	w.Type(pageToken) // replaces the selected text
	w.Press("Enter")
	w.shows("@goulard3120")
	w.Until("document.querySelector('.phase').textContent == 'IDLE' && document.activeElement?.id == 'agent'")
	w.section("turn", "No turn runs.")

	// A mail of the operator begins a turn, which the page shows live.
	w.receive("the =?utf-8?q?=3Cscript=3Edocument=2Etitle=3D=22owned=22=3C/script=3E_=E2=80=AEgnp=1B[31m?=", "", "take your time")
	w.section("turn", "uses Grep")
	w.Until("document.querySelector('.phase').textContent == 'PREP'")
	w.section("turn", "<script>document.title=\"owned\"</script>")
	w.shows("Time limit in")
	w.shows("IDLE in")
	var counts []string
	w.Evaluate("[...document.querySelectorAll('.counts dd')].map(n => n.textContent)", &counts)
	w.Until(fmt.Sprintf("[...document.querySelectorAll('.counts dd')].some((n, i) => n.textContent != %s[i])", strings.ReplaceAll(fmt.Sprintf("%q", counts), `" "`, `", "`)))
	w.touch("go")
	w.section("turn", "writes")
	w.section("history", "take your time")

	// stop
	w.Click("[data-act=stop]")
	w.Until("document.activeElement?.type == 'textarea'")
	w.Type("wrong repository")
	w.confirm()
	w.section("hero", "is being stopped")
	w.section("turn", "No turn runs.")
	w.history("wrong repository")
	if s := w.state(); s.Turn.Status != state.HeadIdle {
		t.Errorf("the turn was not stopped: %+v", s.Turn)
	}

	// tell, by the keyboard alone
	w.Click("[data-result] button")
	w.Until("document.activeElement?.id == 'agent'")
	w.Press("Tab")
	w.Until("document.activeElement?.dataset?.act == 'tell'")
	w.Press("Enter")
	w.Until("document.activeElement?.tagName == 'TEXTAREA'")
	w.Press("Escape")
	w.Until("document.activeElement?.dataset?.act == 'tell' && !document.querySelector('form.confirm')")
	w.Press("Space")
	w.Until("document.activeElement?.tagName == 'TEXTAREA'")
	w.think()
	w.Press("Tab")
	w.Press("Enter")
	w.shows("Type a text first.")
	w.Until("document.activeElement?.tagName == 'TEXTAREA'")
	w.Type("please ask me <b>now</b>")
	w.Press("Tab")
	w.Press("Enter")
	w.Until("document.activeElement?.hasAttribute('data-result')")
	w.section("history", "please ask me <b>now</b>")
	w.history("you, on the page: \"please ask me")

	// answer
	w.section("questions", "May I delete the old backups?")
	w.Click(".question [data-name='option 0']")
	w.confirm()
	w.history("you answered on the page")
	w.history("\"please ask me <b>now</b>\" after")
	w.section("history", "you answered on the page")
	w.Until("!document.querySelector('.question')")

	// approve
	w.receive("work", "", "tidy up")
	w.section("questions", "rm -rf old")
	w.Click(".question [data-name='option 0']")
	w.confirm()
	w.Until("!document.querySelector('.question')")
	w.history("did what you permitted")
	if _, err := os.Stat(filepath.Join(w.agent.dir, "removed")); err != nil {
		t.Errorf("the permission had no effect: %v", err)
	}

	// release and drop
	w.receive("first away", "Auto-Submitted: auto-replied\r\n", "I am away <img src=x onerror=alert(1)>")
	w.section("quarantine", "first away")
	w.receive("second away", "Auto-Submitted: auto-replied\r\n", "I am away, too")
	w.section("quarantine", "second away")
	w.Click(".part-quarantine .item:last-child [data-act=release]")
	w.confirm()
	w.history("released")
	w.Until("document.querySelectorAll('.part-quarantine .item').length == 1")
	w.Click(".part-quarantine [data-act=drop]")
	w.Until("document.activeElement?.type == 'textarea' || document.activeElement?.type == 'submit'")
	w.confirm()
	w.Until("document.querySelectorAll('.part-quarantine .item').length == 0")
	if n := w.state().Quarantined; n != 0 {
		t.Errorf("%d items in quarantine", n)
	}

	// retry
	if out, code, _ := w.agent.run(t.Context(), "remind", "5h", "look at the logs"); code != 0 {
		t.Fatal(out)
	}
	w.section("messages", "look at the logs")
	w.section("schedule", "look at the logs")
	w.Click(".part-messages [data-act=retry]")
	w.confirm()
	w.Until("!document.querySelector('.part-messages .item')")
	w.history("queued again")

	// halt and resume
	w.Click("[data-act=halt]")
	w.Until("document.activeElement?.type == 'textarea'")
	w.Type("too expensive")
	w.confirm()
	w.Until("document.querySelector('.badges').textContent.includes('HALTED')")
	w.section("trouble", "HALTED")
	if !w.state().Halted() {
		t.Error("the agent is not halted")
	}
	w.history("on the page: too expensive")
	w.Click("[data-act=resume]")
	w.confirm()
	w.Until("!document.querySelector('.badges').textContent.includes('HALTED')")
	if w.state().Halted() {
		t.Error("the agent is still halted")
	}

	// The search asks the listener, and finds what the page does not show yet.
	w.Click("#q")
	w.Type("expensive")
	w.Until("document.querySelectorAll('.entry').length == 1 && document.querySelector('.entry').textContent.includes('too expensive')")
	w.Click("[name=kind][value=answer] + span")
	w.shows("No entry matches.")
	w.Click("[name=kind][value=order] + span")
	w.Evaluate("q.value = ''; q.dispatchEvent(new Event('input'))", nil)
	w.Until("document.querySelectorAll('.entry').length > 1 && [...document.querySelectorAll('.entry')].every(n => n.classList.contains('is-order'))")

	var title string
	if w.Evaluate("document.title", &title); !strings.HasSuffix(title, "agentStateLoop") {
		t.Errorf("a subject changed the title to %q", title)
	}
	w.quiet(unauthorized)

	// A page that only shows.
	config := filepath.Join(w.agent.dir, "agent.toml")
	writeFile(t, config, readFile(t, config)+"[listen]\npage = \"read\"\n")
	w.Until("document.querySelector('main.agent') && !document.querySelector('main button[data-act]')")
	w.shows("@goulard3120")
}

// TestPageReconnects kills the listener, changes its agent meanwhile, and restarts it.
func TestPageReconnects(t *testing.T) {
	t.Parallel()
	w := startPage(t)
	w.Open(w.url + "/")
	w.logIn()
	w.Click("[data-act=tell]")
	w.Until("document.activeElement?.tagName == 'TEXTAREA'")
	w.Type("half a sent")

	w.kill()
	w.Until("document.querySelector('.link').textContent.startsWith('Reconnecting…')")
	w.Until("document.getElementById('said').textContent == 'The connection is lost. Reconnecting.'")
	w.shows("@goulard3120") // what is known stays
	w.think()
	w.Click("form.confirm [type=submit]")
	w.shows("The listener did not answer.")
	if out, code, _ := w.agent.run(t.Context(), "halt", "--reason", "meanwhile"); code != 0 {
		t.Fatal(out)
	}
	w.start()
	w.Until("document.querySelector('.link').textContent == 'Live'")
	w.section("history", "meanwhile")
	w.Until("document.querySelector('.badges').textContent.includes('HALTED')")
	w.Until("document.querySelector('textarea').value == 'half a sent'")

	// A machine that slept for an hour: no error comes, and the clock jumps.
	w.Evaluate(`(() => {
		const now = Date.now;
		Date.now = () => now() + 3600e3;
		window.events = performance.getEntriesByType("resource").filter(e => e.name.endsWith("/page/events")).length;
	})()`, nil)
	w.Until("performance.getEntriesByType('resource').filter(e => e.name.endsWith('/page/events')).length > events")
	w.Until("document.querySelector('.link').textContent == 'Live'")

	// Another token ends the session. What was typed is there after the login.
	writeFile(t, filepath.Join(w.agent.dir, "token"), "another token 0123456789\n")
	w.Until("document.activeElement?.id == 'token'")
	w.shows("The session has ended. Log in again.")
	writeFile(t, filepath.Join(w.agent.dir, "token"), pageToken+"\n")
	w.logIn()
	w.Until("document.querySelector('textarea').value == 'half a sent'")
	w.quiet(unauthorized, unreachable)

	w.Click("footer button")
	w.Until("document.activeElement?.id == 'token'")
}
