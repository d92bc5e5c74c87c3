package page_test

import (
	"fmt"
	"os"
	"testing"

	chromium "agentstateloop/internal/testkit/browser"
)

func TestTry(t *testing.T) {
	b := chromium.Start(t)
	b.Call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, nil)
	w, h, phone := 360, 1100, true
	size := func() { b.Size(w, h, phone) }
	shot := func(name string) {
		size()
		var wide, high int
		b.Evaluate("document.documentElement.scrollWidth - innerWidth", &wide)
		b.Evaluate("document.documentElement.scrollHeight", &high)
		t.Log(name, "overflow", wide, high, b.Console)
		for i := range 4 {
			b.Evaluate(fmt.Sprintf("scrollTo(0, %d)", i*(h-60)), nil)
			os.WriteFile(fmt.Sprintf("/tmp/w/shots/%s-%d.png", name, i), b.View(), 0o600)
			if (i+1)*(h-60) > high {
				break
			}
		}
		b.Evaluate("scrollTo(0, 0)", nil)
	}
	os.MkdirAll("/tmp/w/shots", 0o700)
	now := fixtureTime
	s := serveFixture(t, document(now, fullAgent("scout", now)))
	b.Open(s.URL)
	b.Until("document.querySelector('h1')?.textContent == '@scout'")
	shot("phone")
	b.Scheme("dark")
	shot("phone-dark")
	w, h, phone = 1280, 1300, false
	shot("desktop-dark")
	b.Scheme("light")
	shot("desktop")
	w, h, phone = 360, 1100, true
	s.show(document(now, emptyAgent("scout", now)))
	b.Until("document.querySelector('.phase').textContent == 'IDLE'")
	shot("empty")
	s.show(document(now, thirtyAgents(now)...))
	b.Until("document.querySelectorAll('.card').length == 30")
	shot("many")
	w, h, phone = 1280, 1300, false
	shot("many-desktop")
	w, h, phone = 360, 1100, true
	s.show(document(now, hostileAgent(now)))
	b.Until("document.querySelector('.agent')")
	shot("hostile")
}
