package page_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/page"
	chromium "agentstateloop/internal/testkit/browser"
)

// maxAssets is the limit of the page as a whole.
const maxAssets = 150_000

func TestAssetsAreSmall(t *testing.T) {
	if n := len(page.Index) + len(page.Style) + len(page.Script) + len(page.Icon); n > maxAssets {
		t.Errorf("the page has %d bytes, the limit is %d", n, maxAssets)
	}
}

// axe returns the script of axe-core, which checks what a screen reader needs.
func axe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(os.Getenv("AGENTSTATELOOP_CLIS"), "..", "axe-core", "axe.min.js"))
	if err == nil {
		return string(script)
	}
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
		t.Fatal(err)
	}
	t.Skip("no axe-core: set AGENTSTATELOOP_CLIS to the node_modules/.bin next to it")
	return ""
}

// start starts a browser in the time zone of the pictures.
func start(t *testing.T) *chromium.Browser {
	b := chromium.Start(t)
	b.Call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, nil)
	return b
}

// quiet fails the test if the page complained, or fetched something from elsewhere.
func quiet(t *testing.T, b *chromium.Browser, at string) {
	t.Helper()
	for _, line := range b.Console {
		t.Errorf("the console has: %s", line)
	}
	for _, address := range b.Fetched {
		if !strings.HasPrefix(address, at) {
			t.Errorf("fetched from elsewhere: %s", address)
		}
	}
}

// fits fails the test if something is wider than the window.
func fits(t *testing.T, b *chromium.Browser, view string) {
	t.Helper()
	var wide []string
	b.Evaluate(`[...document.querySelectorAll("#page *")].filter(n => {
		if (n.closest(".unseen, .kinds, .scroll")) return false;
		const r = n.getBoundingClientRect();
		return r.width > 0 && (r.right > document.documentElement.clientWidth + 1 || r.left < -1);
	}).slice(0, 5).map(n => n.tagName + "." + n.className.toString())`, &wide)
	if len(wide) > 0 {
		t.Errorf("%s: wider than the window: %v", view, wide)
	}
}

// accessible fails the test for each violation that axe-core finds.
func accessible(t *testing.T, b *chromium.Browser, view string) {
	t.Helper()
	var found []string
	b.Evaluate(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " + v.help + ": " +
		v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")))`, &found)
	for _, v := range found {
		t.Errorf("%s: %s", view, v)
	}
}

// views are the documents whose layout is checked.
func views(now time.Time) map[string]page.Document {
	reads := fullAgent("scout", now)
	reads.MayAct = false
	broken := emptyAgent("scout", now)
	broken.Status, broken.Error = nil, ref("state.json: unexpected end of JSON input")
	return map[string]page.Document{
		"full": document(now, fullAgent("scout", now)), "empty": document(now, emptyAgent("scout", now)), "read": document(now, reads),
		"thirty": document(now, thirtyAgents(now)...), "none": document(now), "broken": document(now, broken),
	}
}

// TestLayout shows each view on a phone and on a desktop, light and dark, opens its details and a
// form, and checks the width, the accessibility and the console.
func TestLayout(t *testing.T) {
	script := axe(t)
	b := start(t)
	now := fixtureTime
	for name, d := range views(now) {
		s := serveFixture(t, d)
		b.Open(s.URL)
		b.Until("document.querySelector('h1')")
		b.Until("document.querySelector('.link').textContent == 'Live'")
		b.Evaluate(script, nil)
		for _, open := range []bool{false, true} {
			if open {
				b.Evaluate(`document.querySelectorAll("details").forEach(n => { n.open = true }); document.querySelectorAll("[data-act=tell], [data-act=drop], [data-name=own]").forEach(n => n.click())`, nil)
				b.Evaluate("new Promise(r => setTimeout(r, 50))", nil)
			}
			for _, scheme := range []string{"light", "dark"} {
				b.Scheme(scheme)
				for _, width := range []int{chromium.PhoneWidth, 1280} {
					b.Size(width, 900, width == chromium.PhoneWidth)
					// The transitions of colors end first.
					b.Evaluate("Promise.all(document.getAnimations().filter(a => a.transitionProperty).map(a => a.finished)).then(() => null)", nil)
					view := fmt.Sprintf("%s, open %v, %s, %d", name, open, scheme, width)
					fits(t, b, view)
					if width == chromium.PhoneWidth || scheme == "dark" {
						accessible(t, b, view)
					}
				}
			}
		}
		if name == "read" {
			var acts int
			if b.Evaluate("document.querySelectorAll('[data-act], form.confirm').length", &acts); acts > 0 {
				t.Errorf("a page that only shows has %d acts", acts)
			}
		}
		quiet(t, b, s.URL)
		b.Open("about:blank")
	}
}

// harmless fails the test if a hostile text has had an effect, or stands in the page with a character
// that changes what a person reads.
func harmless(t *testing.T, b *chromium.Browser) {
	t.Helper()
	var got struct {
		Title    string
		Foreign  int
		Handlers int
		Longest  int
		Unseen   bool
		Shown    bool
	}
	b.Evaluate(`(() => {
		const all = [...document.querySelectorAll("#page *")];
		const text = document.getElementById("page").textContent;
		return {
			title: document.title,
			foreign: all.filter(n => /^(script|img|iframe|object|embed|base|meta|link|style)$/i.test(n.tagName) || n.namespaceURI == "http://www.w3.org/1998/Math/MathML").length,
			handlers: all.filter(n => n.getAttributeNames().some(a => a.startsWith("on") || /^\s*javascript:/i.test(n.getAttribute(a)))).length,
			longest: Math.max(...all.filter(n => !n.children.length).map(n => n.textContent.length)),
			unseen: /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/.test(text),
			shown: text.includes("<script>"),
		};
	})()`, &got)
	if !strings.HasSuffix(got.Title, "agentStateLoop") || got.Foreign > 0 || got.Handlers > 0 || got.Longest > 5000 || got.Unseen || !got.Shown {
		t.Errorf("hostile texts on the page: %+v", got)
	}
}

func TestHostileTexts(t *testing.T) {
	b := start(t)
	now := fixtureTime
	d := document(now, hostileAgent(now))
	s := serveFixture(t, d)
	b.Open(s.URL)
	b.Until("document.querySelector('#history')")
	b.Evaluate(`document.querySelectorAll("details").forEach(n => { n.open = true })`, nil)
	b.Evaluate("new Promise(r => setTimeout(r, 100))", nil)
	harmless(t, b)
	fits(t, b, "hostile")
	quiet(t, b, s.URL)

	d.Agents = append(d.Agents, fullAgent("scout", now))
	s.show(d)
	b.Until("document.querySelectorAll('.card').length == 2")
	harmless(t, b)
	fits(t, b, "hostile overview")
	b.Evaluate("document.querySelector('.card a').click()", nil)
	b.Until("document.querySelector('main.agent')")
	harmless(t, b)
	quiet(t, b, s.URL)
}

// TestFile opens the file of hostile and of ordinary agents. It shows the same, offers no act and
// loads nothing.
func TestFile(t *testing.T) {
	b := start(t)
	now := fixtureTime
	for name, d := range map[string]page.Document{"hostile": document(now, hostileAgent(now)), "full": document(now, fullAgent("scout", now)), "thirty": document(now, thirtyAgents(now)...)} {
		file, err := page.File(d)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(file), "\u2028") || strings.Contains(string(file), *d.ActToken) {
			t.Errorf("%s: the file has a raw line separator or the token", name)
		}
		at := b.Show(string(file))
		b.Until("document.querySelector('h1')")
		b.Evaluate(`document.querySelectorAll("details").forEach(n => { n.open = true })`, nil)
		if name == "hostile" {
			harmless(t, b)
			for i, q := range d.Agents[0].Questions {
				var same bool
				text, _ := json.Marshal(q.Text)
				if b.Evaluate(fmt.Sprintf("JSON.parse(document.getElementById('document').textContent).agents[0].questions[%d].text === %s", i, text), &same); !same {
					t.Errorf("the file has another text for question %d, %.60q", i, q.Text)
				}
			}
		}
		var buttons []string
		b.Evaluate("[...document.querySelectorAll('button')].map(n => n.textContent)", &buttons)
		if len(buttons) > 0 {
			t.Errorf("%s: the file has buttons: %q", name, buttons)
		}
		fits(t, b, name)
		quiet(t, b, at)
	}
}

// TestFileSearch filters the history that is in the file.
func TestFileSearch(t *testing.T) {
	b := start(t)
	file, err := page.File(document(fixtureTime, fullAgent("scout", fixtureTime)))
	if err != nil {
		t.Fatal(err)
	}
	b.Show(string(file))
	texts := func() (shown []string) {
		b.Evaluate("[...document.querySelectorAll('.entry .what > p')].map(n => n.textContent)", &shown)
		return shown
	}
	if n := len(texts()); n != 11 {
		t.Fatalf("%d entries without a filter", n)
	}
	b.Evaluate("document.querySelector('[name=kind][value=order]').click()", nil)
	if got := texts(); len(got) != 2 || !strings.Contains(got[0], "resumed") {
		t.Errorf("orders: %q", got)
	}
	b.Evaluate("document.getElementById('q').focus()", nil)
	b.Type("SPENDING halted")
	if got := texts(); len(got) != 1 || !strings.Contains(got[0], "halted by you") {
		t.Errorf("found: %q", got)
	}
	b.Type("!")
	if got := texts(); len(got) != 0 {
		t.Errorf("found: %q", got)
	}
}

// TestUpdatesKeepTheReader changes the document while a person reads and types.
func TestUpdatesKeepTheReader(t *testing.T) {
	b := start(t)
	now := fixtureTime
	a := fullAgent("scout", now)
	s := serveFixture(t, document(now, a))
	b.Open(s.URL)
	b.Until("document.querySelector('[data-act=tell]')")
	b.Evaluate(`document.querySelector("[data-act=tell]").click()`, nil)
	b.Until("document.activeElement.tagName == 'TEXTAREA'")
	b.Type("half a sent")
	b.Evaluate(`
		window.typing = document.activeElement;
		typing.setSelectionRange(2, 5);
		window.details = document.querySelector(".part-quarantine details");
		details.open = true;
		window.reading = document.querySelector("#history");
		reading.scrollIntoView({block: "start"});
		scrollBy(0, 200);
		window.at = document.querySelector(".entry .quote").getBoundingClientRect().top;
		window.changes = 0;
		new MutationObserver(list => { changes += list.length }).observe(document.getElementById("said"), {childList: true, characterData: true, subtree: true});
	`, nil)
	a.Messages = append([]page.Message{{Number: "44", Key: "mail:44", From: "jo@example.org", Subject: "one more", At: now, State: "waiting", Why: "waits for its turn"}}, a.Messages...)
	a.Trouble = append([]page.Row{{Label: "HOOK", Text: "deploy fails since 14:26:00"}}, a.Trouble...)
	s.show(document(now, a))
	b.Until("document.body.textContent.includes('one more')")
	var got struct {
		Focus, Open  bool
		Text         string
		Start, End   int
		Moved        float64
		Said         string
		Changes      int
		Regions      int
		StillTheSame bool
	}
	b.Evaluate(`({
		focus: document.activeElement === typing, open: details.isConnected && details.open, text: typing.value, start: typing.selectionStart, end: typing.selectionEnd,
		moved: document.querySelector(".entry .quote").getBoundingClientRect().top - at, said: document.getElementById("said").textContent, changes,
		regions: document.querySelectorAll("[aria-live], [role=status], [role=alert], [role=log], output").length,
		stillTheSame: reading === document.querySelector("#history"),
	})`, &got)
	if !got.Focus || !got.Open || got.Text != "half a sent" || got.Start != 2 || got.End != 5 || got.Moved > 1 || got.Moved < -1 || !got.StillTheSame {
		t.Errorf("the update disturbed the reader: %+v", got)
	}
	if got.Said != "HOOK deploy fails since 14:26:00" || got.Regions != 1 {
		t.Errorf("a screen reader hears %+v", got)
	}

	// The passing of time, and a change that nobody needs to hear, say nothing.
	b.Evaluate("changes = 0", nil)
	a.Turn.Steps = append(a.Turn.Steps, page.Step{At: now, Kind: "text", Text: "one more step"})
	s.show(document(now.Add(3*time.Second), a))
	b.Until("document.body.textContent.includes('one more step')")
	b.Evaluate("new Promise(r => setTimeout(r, 2100))", nil)
	if b.Evaluate("({changes})", &got); got.Changes != 0 {
		t.Errorf("the live region changed %d times", got.Changes)
	}
	var left string
	b.Evaluate("document.querySelector('[data-until]').textContent", &left)
	b.Until(fmt.Sprintf("document.querySelector('[data-until]').textContent != %q", left))
	quiet(t, b, s.URL)
}

// TestRoutes opens an agent from the overview by the keyboard, and goes back.
func TestRoutes(t *testing.T) {
	b := start(t)
	now := fixtureTime
	s := serveFixture(t, document(now, thirtyAgents(now)...))
	b.Open(s.URL)
	b.Until("document.querySelectorAll('.card').length == 30")
	b.Evaluate("document.querySelector('.card a').focus()", nil)
	b.Press("Enter")
	b.Until("document.querySelector('h1').textContent == '@agent-00' && document.activeElement.id == 'agent' && document.title.includes('@agent-00')")
	b.Press("Tab")
	b.Until("document.activeElement.dataset.act == 'tell'")
	b.Evaluate("history.back()", nil)
	b.Until("document.querySelectorAll('.card').length == 30")
	b.Evaluate("location.hash = '#/%E0%A4%A'", nil) // not an address of ours
	b.Until("document.querySelectorAll('.card').length == 30")
	quiet(t, b, s.URL)
}

// TestLoginForm checks the form for the token, before and after a wrong one.
func TestLoginForm(t *testing.T) {
	script := axe(t)
	s := serve(t)
	b := start(t)
	b.Open(s.base + "/")
	b.Until("document.activeElement.id == 'token'")
	b.Evaluate(script, nil)
	for _, wrong := range []bool{false, true} {
		if wrong {
			b.Type("wrong")
			b.Press("Enter")
			b.Until("document.querySelector('.login .error')")
		}
		for _, scheme := range []string{"light", "dark"} {
			b.Scheme(scheme)
			b.Evaluate("Promise.all(document.getAnimations().filter(a => a.transitionProperty).map(a => a.finished)).then(() => null)", nil)
			fits(t, b, "login")
			accessible(t, b, fmt.Sprintf("login, wrong %v, %s", wrong, scheme))
		}
	}
	b.Type(theToken) // over the wrong one, which is selected
	b.Press("Enter")
	b.Until("document.activeElement.id == 'agent'")
}
