package mesh

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"
)

// TestExplicitChoiceWins checks that a choice of the operator or of a caller counts before the
// default.
func TestExplicitChoiceWins(t *testing.T) {
	if got := NewServer(Options{OnlineFor: time.Minute}).options.OnlineFor; got != time.Minute {
		t.Errorf("an agent is online for %v", got)
	}
	_, url := startServer(t, Options{Tokens: twoTokens()})
	c := client(url, "goulard", "tg")
	c.Paths.Blob = "/elsewhere"
	if err := upload(t, c, "x"); !errors.Is(err, ErrNoFiles) {
		t.Errorf("an upload to another path: %v", err)
	}
	f := putFile(t, client(url, "goulard", "tg"), "x")
	if text, code := getFile(t, c, f); text != "" || code != 404 {
		t.Errorf("a download from another path: %q %d", text, code)
	}
}

// TestRetryAfterRounding checks that a temporary refusal never asks for a pause of 0, and that parts
// of a second are rounded up.
func TestRetryAfterRounding(t *testing.T) {
	if r := busyBlobs(429, "x").(*refusal); r.after != time.Minute {
		t.Errorf("files: %v", r.after)
	}
	clock, p := newTestClock(), newRateLimit()
	p.unproven, p.swept = maxUnprovenSenders, clock.now()
	if wait := p.take(rateKey{from: "liar"}, clock.now()); wait != time.Minute {
		t.Errorf("one sender too many: %v", wait)
	}
	for after, want := range map[time.Duration]string{0: "", 1: "1", time.Second: "1", time.Second + 1: "2"} {
		w := httptest.NewRecorder()
		answerError(w, &refusal{code: 503, after: after})
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("%v: Retry-After %q, want %q", after, got, want)
		}
	}
}

// TestRepeatedUploadRenewsFile checks that the day of a file begins again.
func TestRepeatedUploadRenewsFile(t *testing.T) {
	clock := newTestClock()
	b, k := newBlobs(&memoryBlobs{}, memoryQuota, clock.now), blobKey{"goulard", "x"}
	b.stored[k] = &blob{size: 1, at: clock.Add(-time.Hour)}
	if exists, err := b.reserve(k, 1); !exists || err != nil || !b.stored[k].at.Equal(clock.now()) {
		t.Errorf("%+v, %t, %v", b.stored[k], exists, err)
	}
}
