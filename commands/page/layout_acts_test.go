package page_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/page"
	chromium "agentstateloop/internal/testkit/browser"
)

// TestRemovedAgent removes the agent that a person looks at. Another agent must not take its place.
func TestRemovedAgent(t *testing.T) {
	b := start(t)
	one, two := fullAgent("alpha1", fixtureTime), fullAgent("alpha2", fixtureTime)
	s := serveFixture(t, document(fixtureTime, one, two))
	b.Open(s.URL + "/#/alpha1")
	b.Until("document.querySelector('h1')?.textContent == '@alpha1'")
	s.show(document(fixtureTime, two))
	b.Until("document.querySelector('main.gone')?.textContent.includes('no longer shows @alpha1') && !document.querySelector('[data-act]')")
	b.Evaluate("document.querySelector('.gone a').click()", nil)
	b.Until("document.querySelector('h1').textContent == '@alpha2'")
	quiet(t, b, s.URL)
}

// TestConfirmationsNameTheAgent opens the confirmation of each act.
func TestConfirmationsNameTheAgent(t *testing.T) {
	b := start(t)
	a := fullAgent("scout", fixtureTime)
	for _, a.Status.Halted = range []bool{false, true} {
		s := serveFixture(t, document(fixtureTime, a))
		b.Open(s.URL)
		b.Until("document.querySelector('[data-act]')")
		var asks []string
		b.Evaluate(`[...document.querySelectorAll("[data-act]")].map(n => [n.closest("[data-group]").dataset.group, n.dataset.name]).map(([id, name]) => {
			const group = () => [...document.querySelectorAll("[data-group]")].find(n => n.dataset.group === id);
			group().querySelector("[data-name='" + name + "']").click();
			const ask = group().querySelector(".ask").textContent;
			group().querySelector(".acts button:last-child").click();
			return ask;
		})`, &asks)
		if len(asks) != 13 {
			t.Errorf("%d confirmations: %q", len(asks), asks)
		}
		for _, ask := range asks {
			if !strings.Contains(ask, "@scout") {
				t.Errorf("does not name the agent: %s", ask)
			}
		}
		b.Open("about:blank")
	}
}

// TestStopNamesItsTurn ends the turn whose confirmation is open. The next turn must not take its place.
func TestStopNamesItsTurn(t *testing.T) {
	b := start(t)
	a := fullAgent("scout", fixtureTime)
	turn := a.Turn
	a.Status.Turn.ID = ref("T1")
	s := serveFixture(t, document(fixtureTime, a))
	show := func(id string, shown *page.Turn) {
		status := *a.Status
		status.Turn.ID = ref(id)
		a.Status, a.Turn = &status, shown
		d := document(fixtureTime, a)
		d.Host = id
		s.show(d)
		b.Until(fmt.Sprintf("document.querySelector('.hero').textContent.includes('on %s')", id))
	}
	b.Open(s.URL)
	b.Until("document.querySelector('[data-act=stop]')")
	stop := func() { b.Evaluate("document.querySelector('[data-act=stop]').click()", nil) }
	stop()
	show("T1, ended", nil)
	show("T2", turn)
	b.Until("document.querySelector('[data-act=stop]') && !document.querySelector('form.confirm')")
	stop()
	show("T3", turn)
	b.Until("document.querySelector('[data-act=stop]') && !document.querySelector('form.confirm')")
	stop()
	b.Evaluate("new Promise(r => setTimeout(r, 350))", nil) // not a double click
	b.Evaluate("document.querySelector('form.confirm [type=submit]').click()", nil)
	b.Until("document.querySelector('form.confirm .error')?.textContent == 'Refused by the test.'")
	var order struct{ Act, What string }
	if err := json.Unmarshal([]byte(s.ordered()[0]), &order); err != nil || order.Act != "stop" || order.What != "T3" {
		t.Errorf("ordered %q", s.ordered())
	}

	// The turn ends while the listener refuses the act. The error outlives the form.
	b.Evaluate("window.refuse = null; window.fetch = () => new Promise(r => { refuse = () => r(Response.json({error: 'that turn has ended'}, {status: 409})) })", nil)
	b.Evaluate("document.querySelector('form.confirm [type=submit]').click()", nil)
	show("T4", turn)
	b.Evaluate("refuse()", nil)
	b.Until("document.querySelector('.result.failed')?.textContent.startsWith('That turn has ended.') && !document.querySelector('form.confirm')")
}

// TestUpgrade shows documents of a newer listener. The page loads itself again as soon as no form is open.
func TestUpgrade(t *testing.T) {
	b := start(t)
	d := document(fixtureTime, fullAgent("scout", fixtureTime))
	s := serveFixture(t, d)
	b.Open(s.URL)
	b.Until("document.querySelector('[data-act=tell]')")
	b.Evaluate("window.old = true; document.querySelector('[data-act=tell]').click()", nil)
	for _, d.Host = range []string{"one", "two"} {
		d.Version = "2.1"
		s.show(d)
		b.Until(fmt.Sprintf("document.body.textContent.includes('on %s')", d.Host))
	}
	var old bool
	if b.Evaluate("window.old === true", &old); !old {
		t.Error("the page loaded itself again with an open form")
	}
	b.Evaluate("document.querySelector('form.confirm .acts button:last-child').click()", nil)
	b.Until("window.old === undefined && document.querySelector('[data-act=tell]')")
}

// TestSilentListener connects to a listener that accepts connections and does not answer.
func TestSilentListener(t *testing.T) {
	b := start(t)
	s := serveFixture(t, document(fixtureTime, fullAgent("scout", fixtureTime)))
	s.setMute(true)
	b.Open(s.URL)
	b.Until("document.querySelector('.link').textContent == 'Connecting…'")
	s.setMute(false)
	b.Evaluate("Date.now = (real => () => real() + 21e3)(Date.now)", nil)
	b.Until("document.querySelector('.link').textContent == 'Live'")

	// Its answers to an act and to a search have a timeout, here in milliseconds.
	s.setMute(true)
	b.Evaluate("AbortSignal.timeout = (real => (ms) => real.call(AbortSignal, ms / 1000))(AbortSignal.timeout)", nil)
	b.Evaluate("document.querySelector('[data-act=halt]').click()", nil)
	b.Evaluate("new Promise(r => setTimeout(r, 350))", nil)
	b.Evaluate("document.querySelector('form.confirm [type=submit]').click(); document.querySelector('[name=kind][value=order]').click()", nil)
	b.Until("document.querySelector('form.confirm .error')?.textContent.startsWith('The listener did not answer.')")
	b.Until("document.querySelector('.part-history .error')?.textContent.startsWith('The listener did not answer')")
}

// numbered returns entries with the serials from last down to first.
func numbered(last, first int) (all []page.Entry) {
	for n := last; n >= first; n-- {
		all = append(all, page.Entry{ID: fmt.Sprintf("%d.1", n), At: fixtureTime, Kind: "other", Text: fmt.Sprintf("entry %d", n)})
	}
	return all
}

// expectEntries waits until the history is these entries, without a gap.
func expectEntries(b *chromium.Browser, last, first int) {
	b.Until(fmt.Sprintf(`(shown => shown.length == %d && shown.every((text, n) => text == "entry " + (%d - n)))([...document.querySelectorAll(".entry .what > p")].map(n => n.textContent))`, last-first+1, last))
}

// TestHistoryGrows adds entries to the history while older ones are shown, with and without a filter.
func TestHistoryGrows(t *testing.T) {
	b := start(t)
	a := fullAgent("scout", fixtureTime)
	s := serveFixture(t, document(fixtureTime, a))
	grow := func(last int) {
		a.History = numbered(last, last-49)
		s.mu.Lock()
		s.history = numbered(last, 1)
		s.mu.Unlock()
		s.show(document(fixtureTime, a))
	}
	older := func() { b.Evaluate("document.querySelector('.part-history > .acts button').click()", nil) }
	grow(100)
	b.Open(s.URL)
	b.Until("document.querySelector('.part-history > .acts button')")
	older()
	expectEntries(b, 100, 31)
	grow(103)
	expectEntries(b, 103, 31)
	older()
	expectEntries(b, 103, 11)
	grow(300) // the listener was away for long
	expectEntries(b, 300, 251)
	older()
	expectEntries(b, 300, 231)

	b.Evaluate("document.querySelector('[name=kind][value=other]').click()", nil)
	expectEntries(b, 300, 281)
	grow(340)
	expectEntries(b, 340, 281)
	grow(380)
	expectEntries(b, 380, 281)
	grow(500)
	expectEntries(b, 500, 481)
}

// TestHistoryOfAWrongClock shows a day, the day before, and the first day again.
func TestHistoryOfAWrongClock(t *testing.T) {
	b := start(t)
	a := fullAgent("scout", fixtureTime)
	a.History = numbered(9, 1)
	for i := 3; i < 6; i++ {
		a.History[i].At = fixtureTime.AddDate(0, 0, -1)
	}
	s := serveFixture(t, document(fixtureTime, a))
	b.Open(s.URL)
	b.Until("document.querySelector('.entry')")
	expectEntries(b, 9, 1)
	a.History = append(numbered(10, 10), a.History...)
	s.show(document(fixtureTime, a))
	expectEntries(b, 10, 1)
}

// TestRefusedSearch shows the reason of the listener.
func TestRefusedSearch(t *testing.T) {
	b := start(t)
	s := serveFixture(t, document(fixtureTime, fullAgent("scout", fixtureTime)))
	s.refusal = "too many searches"
	b.Open(s.URL)
	b.Until("document.querySelector('#q')")
	b.Evaluate("document.querySelector('[name=kind][value=other]').click()", nil)
	b.Until("document.querySelector('.part-history .error')?.textContent == 'Too many searches. Wait.'")
}

// TestClockOfTheListener reads the page far from the listener, in a tab that got an old document.
func TestClockOfTheListener(t *testing.T) {
	b := start(t)
	b.Call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "America/New_York"}, nil)
	d := document(fixtureTime, fullAgent("scout", fixtureTime))
	d.Agents[0].History = []page.Entry{
		{ID: "2.1", At: fixtureTime.Add(9 * time.Hour), Kind: "other", Text: "tomorrow"},
		{ID: "1.1", At: fixtureTime.AddDate(0, 0, -40), Kind: "other", Text: "summer"},
	}
	var got struct {
		Times, Days         []string
		Midnight, Idle, End string
	}
	read := func() {
		t.Helper()
		b.Until("document.querySelector('.entry')")
		b.Evaluate(`({
			times: [...document.querySelectorAll(".entry > time")].map(n => n.textContent),
			days: [...document.querySelectorAll(".day h3")].map(n => n.textContent),
			midnight: [...document.querySelector(".band .plot").querySelectorAll("text")].find(n => n.textContent == "00:00").getAttribute("x").slice(0, 4),
			idle: [...document.querySelectorAll(".count")].find(n => n.textContent.startsWith("IDLE in")).querySelector("time").textContent,
			end: document.querySelector("footer").textContent,
		})`, &got)
	}
	s := serveFixture(t, d)
	b.Open(s.URL)
	read()
	if fmt.Sprint(got.Times, got.Days) != "[18:26 10:26] [Today Monday 19 October]" || got.Midnight != "60.6" || strings.Contains(got.End, "UTC") || !strings.HasPrefix(got.Idle, "9:1") {
		t.Errorf("without the listener's zone: %+v", got)
	}

	d.Now = fixtureTime.Add(40 * time.Second)
	d.Zones = []page.Zone{{From: fixtureTime.AddDate(0, 0, -400), Minutes: 120}, {From: fixtureTime.AddDate(0, 0, -34), Minutes: 60}}
	s = serveFixture(t, d)
	b.Open(s.URL)
	read()
	if fmt.Sprint(got.Times, got.Days) != "[00:26 16:26] [Sunday 29 November Monday 19 October]" || got.Midnight != "35.6" || !strings.Contains(got.End, "UTC+1") || !strings.HasPrefix(got.Idle, "8:3") {
		t.Errorf("with the listener's zone: %+v", got)
	}
}

// TestAgentPage checks a long question, a permission, a planned resume, a short history and a message
// that is there twice.
func TestAgentPage(t *testing.T) {
	b := start(t)
	a := fullAgent("scout", fixtureTime)
	a.Questions[0].Text = strings.Repeat("x", 4092) + " end"
	a.Schedule = []page.Planned{{What: "resume", At: fixtureTime, Text: "the turn"}}
	s := serveFixture(t, document(fixtureTime, a))
	b.Open(s.URL)
	b.Until("document.querySelector('.part-history .entry')")
	a.Messages = append(a.Messages, a.Messages[0])
	for _, a.Turn.Words = range []string{"first", "second"} {
		s.show(document(fixtureTime, a))
		b.Until(fmt.Sprintf("document.querySelector('.doing').textContent == %q", a.Turn.Words))
	}
	var got struct {
		Question, Plan string
		Main           []int
		More           bool
		Messages       int
	}
	b.Evaluate(`({
		question: document.querySelector(".said").textContent.slice(-4), plan: document.querySelector(".schedule .kind").textContent,
		main: [...document.querySelectorAll(".question")].map(n => n.querySelectorAll("button.main").length), more: document.body.textContent.includes("Show older"),
		messages: document.querySelectorAll(".part-messages .item").length,
	})`, &got)
	if fmt.Sprintf("%+v", got) != "{Question: end Plan:Resume Main:[1 0] More:false Messages:4}" {
		t.Errorf("the page shows %+v", got)
	}
}
