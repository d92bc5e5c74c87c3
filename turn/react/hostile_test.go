package react

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hostileAPI starts an API that answers every request with say, and returns its address.
func hostileAPI(t *testing.T, say func(w http.ResponseWriter)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { say(w) }))
	t.Cleanup(s.Close)
	return s.URL
}

// writeForever writes text until the client hangs up or has read a gigabyte.
func writeForever(w http.ResponseWriter, begin, text string) {
	fmt.Fprint(w, begin)
	block := strings.Repeat(text, 1+(64<<10)/len(text))
	for range (1 << 30) / len(block) {
		if _, err := fmt.Fprint(w, block); err != nil {
			return
		}
	}
}

// everySecond returns the calls that are tried: all where all that is real is required, else
// every second one, from another one each time.
func everySecond(calls []string, which int) (some []string) {
	for i, call := range calls {
		if (i+which)%2 == 0 || os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			some = append(some, call)
		}
	}
	return some
}

// TestEndlessAnswer checks that an answer without end ends as an error, whatever it is
// made of.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	stream := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }
	endless := map[string]func(w http.ResponseWriter){
		"a line":            func(w http.ResponseWriter) { stream(w); writeForever(w, "data: ", "x") },
		"comments":          func(w http.ResponseWriter) { stream(w); writeForever(w, "", ": x\n\n") },
		"a JSON answer":     func(w http.ResponseWriter) { writeForever(w, `{"a":"`, "x") },
		"an error":          func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest); writeForever(w, "", "x") },
		"nested JSON":       func(w http.ResponseWriter) { stream(w); writeForever(w, "data: ", `{"a":`) },
		"a list of models":  func(w http.ResponseWriter) { writeForever(w, `{"data":[`, `{"id":"x"},`) },
		"an unknown number": func(w http.ResponseWriter) { writeForever(w, `{"data":[{"id":`, "9") },
	}
	for i, name := range slices.Sorted(maps.Keys(endless)) {
		say := endless[name]
		t.Run(name, func(t *testing.T) {
			url := hostileAPI(t, say)
			chat, messages := NewChat(url, "key", time.Minute), NewMessages(url, "key", time.Minute)
			question := Question{Model: "m", Messages: []Message{{Text: "hi"}}}
			asks := map[string]func() error{
				"chat": func() error { _, err := chat.Answer(t.Context(), question, func(string) {}); return err },
				"messages": func() error {
					_, err := messages.Answer(t.Context(), question, func(string) {})
					return err
				},
				"chat models":     func() error { _, err := chat.Models(t.Context()); return err },
				"messages models": func() error { _, err := messages.Models(t.Context()); return err },
			}
			for _, api := range everySecond(slices.Sorted(maps.Keys(asks)), i) {
				err := asks[api]()
				if err == nil {
					t.Errorf("%s: no error", api)
				} else if len(err.Error()) > 2000 {
					t.Errorf("%s: an error of %d bytes", api, len(err.Error()))
				}
			}
		})
	}
}

// TestEndlessLines checks that a stream of lines which say nothing ends as an
// error long before its bytes are too many.
func TestEndlessLines(t *testing.T) {
	t.Parallel()
	lines := map[string]string{
		"empty lines":  "\n",
		"blank lines":  "\r\n",
		"comments":     ":\n",
		"empty events": "data:\n\n",
		"null events":  "data: {}\n\n",
		"pings":        "event: ping\ndata: {\"type\": \"ping\"}\n\n",
		"some fields":  "id: 1\n",
	}
	for i, name := range slices.Sorted(maps.Keys(lines)) {
		if i%2 != 0 && os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
			continue // all kinds count alike
		}
		line := lines[name]
		t.Run(name, func(t *testing.T) {
			url := hostileAPI(t, func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", "text/event-stream")
				block := strings.Repeat(line, 64<<10)
				for sent := 0; sent <= 2*maxLines; sent += strings.Count(block, "\n") {
					if _, err := fmt.Fprint(w, block); err != nil {
						return
					}
				}
			})
			question := Question{Model: "m", Messages: []Message{{Text: "hi"}}}
			models := map[string]Model{"chat": NewChat(url, "key", time.Minute), "messages": NewMessages(url, "key", time.Minute)}
			for _, api := range everySecond(slices.Sorted(maps.Keys(models)), i) {
				if _, err := models[api].Answer(t.Context(), question, func(string) {}); err == nil || errors.Is(err, errBrokenOff) {
					t.Errorf("%s read twice as many lines as an answer has: %v", api, err)
				}
			}
		})
	}
}

// TestEndlessCalls checks that the pieces of a stream which each begin a call
// make no more than maxCalls of them.
func TestEndlessCalls(t *testing.T) {
	var d deltas
	for n := range 20 * maxCalls {
		text := fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{}"}}]}}]}`, n, n)
		chunk, err := readChunk([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		d.take(chunk, func(string) {})
	}
	if n := len(d.finish().Calls); n != maxCalls {
		t.Errorf("%d calls", n)
	}
}

// TestRetryAfterBounds checks the limits on the waits that an API may request.
func TestRetryAfterBounds(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "-1": 0, "NaN": 0, "-Inf": 0, "1": time.Second, "0.5": time.Second / 2,
		"Inf": 1e6 * time.Second, "1e300": 1e6 * time.Second, "9223372036854775808": 1e6 * time.Second,
		"Sun, 01 Mar 2026 11:00:00 GMT": 0, "Sun, 01 Mar 2026 12:00:07 GMT": 7 * time.Second,
	} {
		if got := parseRetryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	if got := parseRetryAfter("Fri, 31 Dec 9999 23:59:59 GMT", now); got < 0 {
		t.Errorf("a date far away: %v", got)
	}
}

// TestBackoff checks how long a loop waits after the first fault that may pass, the second,
// and so on, and that it does wait.
func TestBackoff(t *testing.T) {
	l := loopWith(t, nil)
	seconds := func(chance float64, retryAfter time.Duration) (all []float64) {
		for n := range 8 {
			all = append(all, l.pause(n, &Fault{Status: http.StatusTooManyRequests, RetryAfter: retryAfter}, chance).Seconds())
		}
		return all
	}
	for _, c := range []struct {
		chance     float64
		retryAfter time.Duration
		want       []float64
	}{
		{0.5, 0, []float64{1, 2, 4, 8, 16, 32, 60, 60}},
		{0, 0, []float64{0.75, 1.5, 3, 6, 12, 24, 45, 45}},
		{1, 0, []float64{1.25, 2.5, 5, 10, 20, 40, 75, 75}},
		{0.5, 10 * time.Second, []float64{10, 10, 10, 10, 16, 32, 60, 60}},
		{0.5, 2 * time.Hour, []float64{7200, 7200, 7200, 7200, 7200, 7200, 7200, 7200}},
	} {
		if got := seconds(c.chance, c.retryAfter); !slices.Equal(got, c.want) {
			t.Errorf("chance %v, Retry-After %v: %v, want %v", c.chance, c.retryAfter, got, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		for n := range 3 {
			if err := l.backOff(t.Context(), n, begin, errBrokenOff); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(begin).Seconds(); waited < 5.25 || waited > 8.75 {
			t.Errorf("three pauses took %v seconds together, want 7 and up to a quarter more or less", waited)
		}
		begin, l.Deadline = time.Now(), time.Now().Add(time.Minute)
		if err := l.backOff(t.Context(), 0, time.Now(), &Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Minute}); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("a pause that ends with the turn: %v after %v", err, time.Since(begin))
		}
		l.Deadline = time.Now().Add(time.Minute)
		if err := l.backOff(t.Context(), 0, time.Now(), &Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Minute + 1}); err == nil {
			t.Error("a pause that ends after the turn began")
		}
	})
}
