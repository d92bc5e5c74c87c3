package mesh

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestRateLimit checks that each sender may post five messages a minute. A repeat does not count, and
// the Retry-After of the answer is long enough.
func TestRateLimit(t *testing.T) {
	clock := newTestClock()
	_, url := startServer(t, Options{Tokens: twoTokens(), Now: clock.now})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	post := func(c *Client, id string) error {
		_, err := c.Send(t.Context(), Message{ID: id, To: "goulard", Text: "x"})
		return err
	}
	for i := range 5 {
		if err := post(d, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		clock.Time = clock.Add(time.Second)
	}
	err := post(d, "5")
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != http.StatusTooManyRequests || !e.Temporary() || e.RetryAfter != 55*time.Second {
		t.Fatalf("sixth: %v", err)
	}
	if err := post(d, "4"); err != nil {
		t.Errorf("repeat: %v", err)
	}
	if err := post(g, "5"); err != nil {
		t.Errorf("another sender: %v", err)
	}
	clock.Time = clock.Add(e.RetryAfter)
	if err := post(d, "5"); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	clock.Time = clock.Add(-24 * time.Hour)
	if err := post(d, "6"); err != nil {
		t.Errorf("after the clock was set back: %v", err)
	}
}
