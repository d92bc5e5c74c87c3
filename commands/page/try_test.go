package page_test

import (
	"os"
	"testing"

	"agentstateloop/internal/testkit/browser"
)

func TestTry(t *testing.T) {
	b := browser.Start(t)
	b.Call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, nil)
	shot := func(name string) {
		var wide int
		b.Evaluate("document.documentElement.scrollWidth - innerWidth", &wide)
		t.Log(name, "overflow", wide, b.Console)
		os.WriteFile("/tmp/w/shots/"+name+".png", b.Picture(), 0o600)
	}
	os.MkdirAll("/tmp/w/shots", 0o700)
	now := fixtureTime
	s := serveFixture(t, document(now, fullAgent("scout", now)))
	b.Open(s.URL)
	b.Until("document.querySelector('h1')?.textContent == '@scout'")
	shot("phone")
	b.Scheme("dark")
	shot("phone-dark")
	b.Scheme("light")
	b.Size(1280, 900, false)
	shot("desktop")
	b.Scheme("dark")
	shot("desktop-dark")
	b.Scheme("light")
	b.Size(360, 800, true)
	s.show(document(now, emptyAgent("scout", now)))
	b.Until("document.querySelector('.phase').textContent == 'IDLE'")
	shot("empty")
	s.show(document(now, thirtyAgents(now)...))
	b.Until("document.querySelectorAll('.card').length == 30")
	shot("many")
	b.Size(1280, 900, false)
	shot("many-desktop")
	b.Size(360, 800, true)
	s.show(document(now, hostileAgent(now)))
	b.Until("document.querySelector('.agent')")
	shot("hostile")
}
