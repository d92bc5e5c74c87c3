package mesh

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestConfiguredValueOverridesDefault checks that the choice of the operator or the caller
// overrides the default.
func TestConfiguredValueOverridesDefault(t *testing.T) {
	if got := NewServer(Options{OnlineFor: time.Minute}).options.OnlineFor; got != time.Minute {
		t.Errorf("an agent is online for %v", got)
	}
	_, url := startServer(t, Options{Tokens: twoTokens()})
	c, f := client(url, "goulard", "tg"), fileOf("a", "x")
	c.Paths.Blob = "/elsewhere"
	if err := c.PutBlob(t.Context(), "", f.SHA256, f.Size, strings.NewReader("x")); !errors.Is(err, ErrNoFiles) {
		t.Errorf("an upload to another path: %v", err)
	}
	put(t, client(url, "goulard", "tg"), "x")
	if text, code := get(t, c, f); text != "" || code != 404 {
		t.Errorf("a download from another path: %q %d", text, code)
	}
}

// TestRetryAfterOfRefusals checks that no temporary refusal has a Retry-After of 0, and that
// fractions of a second are rounded up.
func TestRetryAfterOfRefusals(t *testing.T) {
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

// TestRepeatedUploadRenewsExpiry checks that a repeated upload keeps the file for another day.
func TestRepeatedUploadRenewsExpiry(t *testing.T) {
	clock := newTestClock()
	b, k := newBlobs(&memoryBlobs{}, memoryQuota, clock.now), blobKey{"goulard", "x"}
	b.held[k] = &blob{size: 1, at: clock.Add(-time.Hour)}
	if there, err := b.reserve(k, 1); !there || err != nil || !b.held[k].at.Equal(clock.now()) {
		t.Errorf("%+v, %t, %v", b.held[k], there, err)
	}
}
