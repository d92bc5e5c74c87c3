package turn

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestParseLimit reads the words of programs and providers about a limit, and when it ends. It is
// Saturday, 28 November 2026, 20:15 in Berlin.
func TestParseLimit(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 20, 15, 0, 0, berlin)
	const limit, overload, none = "limit", "overload", ""
	for _, c := range []struct {
		line, kind, until string
	}{
		// Claude Code, also with other providers.
		{"You've hit your 5-hour limit · resets 9:56pm", limit, "2026-11-28 21:56"},
		{"You've hit your 5-hour limit · resets 3:50am (UTC)", limit, "2026-11-29 04:50"},
		{"You've hit your weekly limit · resets Dec 2, 5pm (Europe/Berlin)", limit, "2026-12-02 17:00"},
		{"You've hit your Opus limit · resets Mon 9am", limit, "2026-11-30 09:00"},
		{"Claude AI usage limit reached|1795899600", limit, "2026-11-28 22:00"},
		{"5-hour limit reached ∙ resets 8:10pm", limit, ""}, // five minutes ago: tomorrow is not meant
		{"Session limit reached ∙ resets 10:30pm", limit, "2026-11-28 22:30"},
		{"Weekly limit reached ∙ resets Jan 3 at 5pm", limit, "2027-01-03 17:00"},
		{"You're out of extra usage · resets 11pm (America/New_York)", limit, "2026-11-29 05:00"},
		{"API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.", limit, ""},
		{"API Error: 429 {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"This request would exceed\"}}", limit, ""},
		{"API Error: Repeated 529 Overloaded errors", overload, ""},
		{"API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment.", overload, ""},
		{"API Error: 500 {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"Internal server error\"}}", overload, ""},
		{"API Error: Connection error.", overload, ""},
		{"API Error: Unable to connect to API (ECONNREFUSED)", overload, ""},

		// Codex.
		{"You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at 4:50 AM.", limit, "2026-11-29 04:50"},
		{"You've hit your usage limit. Upgrade to Pro or try again in 6 days 3 hours 12 minutes.", limit, "2026-12-04 23:27"},
		{"You've hit your usage limit. To get more access now, send a request to your admin or try again at Dec 4th, 2026 9:05 PM.", limit, "2026-12-04 21:05"},
		{"exceeded retry limit, last status: 429 Too Many Requests", limit, ""},
		{"Rate limit reached for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000. Please try again in 1m11.054s. Visit https://platform.openai.com", limit, "2026-11-28 20:16"},
		{"unexpected status 503 Service Unavailable: The model is overloaded. Please try again later., url: http://127.0.0.1/v1/responses", overload, ""},
		{"stream disconnected before completion: error sending request for url (https://api.openai.com/v1/responses)", overload, ""},
		{"We're currently experiencing high demand, which may cause temporary errors.", overload, ""},

		// Gemini, and others.
		{"[API Error: You have exhausted your daily quota on this model.]", limit, ""},
		{"[API Error: You have exhausted your capacity on this model. Your quota will reset after 12h30m5s.]", limit, "2026-11-29 08:45"},
		{"[API Error: Resource has been exhausted\nSuggested retry after 1500s.]", limit, "2026-11-28 20:40"},
		{"429 RESOURCE_EXHAUSTED: {\"retryDelay\": \"36s\"}", limit, "2026-11-28 20:15"},
		{"got status: 503 UNAVAILABLE. The model is overloaded.", overload, ""},
		{"Error: HTTP 429: too many requests, Retry-After: 1200", limit, "2026-11-28 20:35"},
		{"error: rate limited until 2026-11-28T22:00:00Z", limit, "2026-11-28 23:00"},
		{"rate_limit_exceeded: the weekly limit of 100 requests was reached; resets at 2026-11-30 00:00", limit, "2026-11-30 00:00"},
		{"openai.RateLimitError: Error code: 429 - {'error': {'message': 'Requests rate limit exceeded'}}", limit, ""},
		{"httpx.HTTPStatusError: Server error '502 Bad Gateway' for url 'https://openrouter.ai/api'", overload, ""},

		// Words about other things.
		{"Prompt is too long", none, ""},
		{"This model's maximum context length limit of 8192 tokens is exceeded", none, ""},
		{"error_max_turns", none, ""},
		{"Reached max turns limit (10)", none, ""},
		{"output token limit reached", none, ""},
		{"The file exceeds the size limit of 5 MB", none, ""},
		{"exit status 1: 500 files were changed", none, ""},
		{"TypeError: Cannot read properties of undefined (at line 429)", none, ""},
		{"port 5000 is in use", none, ""},
		{"disk quota: no space left on device", none, ""},
		{"limit must be at most 100", none, ""},
	} {
		l := parseLimit(c.line, true, now, berlin)
		kind, until := none, ""
		if l != nil {
			kind = limit
			if l.Kind == state.Overload {
				kind = overload
			}
			if !l.Until.IsZero() {
				until = l.Until.In(berlin).Format("2006-01-02 15:04")
			}
		}
		if kind != c.kind || until != c.until {
			t.Errorf("%s\n\tis %q until %q, want %q until %q", c.line, kind, until, c.kind, c.until)
		}
	}
	if l := parseLimit("connection refused", false, now, berlin); l != nil {
		t.Errorf("the network of a program that need not ask a model: %+v", l)
	}
}

// TestDocumentedLimits tries each sentence that docs/cost.md lists as a report of a limit, and
// each time in it.
func TestDocumentedLimits(t *testing.T) {
	text, err := os.ReadFile("../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Your subscription's limit\n")
	section, _, _ = strings.Cut(section, "\n## ")
	now, tried := time.Date(2026, 12, 4, 19, 0, 0, 0, time.UTC), 0
	for _, match := range regexp.MustCompile(`"([A-Za-z][^"\n]{15,})"`).FindAllStringSubmatch(section, -1) {
		tried++
		sentence := match[1]
		limit := parseLimit(sentence, true, now, time.UTC)
		if strings.HasPrefix(sentence, "Suggested") { // which follows other words
			limit = parseLimit("exhausted your daily quota. "+sentence, true, now, time.UTC)
		}
		if limit == nil || limit.Kind != state.UsageLimit || limit.Until.IsZero() && regexp.MustCompile(`\d`).MatchString(sentence) {
			t.Errorf("%q: %+v", sentence, limit)
		}
	}
	if tried < 4 {
		t.Errorf("%d sentences", tried)
	}
}

// TestAgentTimeZone checks that the times of an agent are read in its own zone, not in the TZ of our
// environment.
func TestAgentTimeZone(t *testing.T) {
	t.Setenv("TZ", "America/St_Johns")
	if zone := (Config{}).zone(); zone.String() == "America/St_Johns" {
		t.Error("the zone is ours")
	}
	if zone := (Config{Env: map[string]string{"TZ": "Europe/Berlin"}}).zone(); zone.String() != "Europe/Berlin" {
		t.Errorf("the agent's own is %s", zone)
	}
}
