package cycle

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

// TestParseWhen parses times of reminders in a zone with daylight saving time.
func TestParseWhen(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	check(t, err)
	now := time.Date(2026, 3, 28, 9, 30, 0, 0, berlin) // the night before the clocks change
	for when, want := range map[string]string{
		"10m":                       "2026-03-28T08:40:00Z",
		"3d":                        "2026-03-31T08:30:00Z",
		"1h30m":                     "2026-03-28T10:00:00Z",
		"09:31":                     "2026-03-28T08:31:00Z",
		"09:30":                     "2026-03-29T07:30:00Z", // tomorrow, in summer time
		"08:00":                     "2026-03-29T06:00:00Z",
		"02:30":                     "2026-03-30T00:30:00Z", // tomorrow has no such time
		"2026-04-01 08:00":          "2026-04-01T06:00:00Z",
		"2026-04-01T08:00":          "2026-04-01T06:00:00Z",
		"2026-04-01T08:00:30":       "2026-04-01T06:00:30Z",
		"2026-04-01 08:00:30":       "2026-04-01T06:00:30Z",
		" 2026-04-01T08:00:00Z ":    "2026-04-01T08:00:00Z",
		"2026-04-01T08:00:00-05:00": "2026-04-01T13:00:00Z",
		"366d":                      "2027-03-29T08:30:00Z",
	} {
		got, err := ParseWhen(when, now, berlin)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q is %v, %v; want %s", when, got, err, want)
		}
	}
	// The hour that a change of the clocks repeats is shown twice.
	for now, want := range map[string]string{"2026-10-25T00:10:00Z": "2026-10-25T00:30:00Z", "2026-10-25T00:30:00Z": "2026-10-25T01:30:00Z", "2026-10-25T01:30:00Z": "2026-10-26T01:30:00Z"} {
		at, _ := time.Parse(time.RFC3339, now)
		if got, err := ParseWhen("02:30", at, berlin); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("02:30 at %s is %v, %v; want %s", now, got, err, want)
		}
	}
	for when, want := range map[string]string{
		"": "not a time", "soon": "not a time", "25:00": "not a time", "8 o'clock": "not a time", "2026-02-30 08:00": "not a time", "2026-04-01": "not a time",
		"-10m": "not in the future", "0s": "not in the future", "0d": "not a time", "-1d": "not a time",
		"2026-03-28 09:30": "has passed", "2020-01-01T00:00:00Z": "has passed",
		"367d": "too far ahead", "9999999h": "not a time", "2028-01-01 00:00": "too far ahead", "99999d": "not a time",
	} {
		if got, err := ParseWhen(when, now, berlin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want %q", when, got, err, want)
		}
	}
}
