package terminal

import (
	"testing"
	"time"
)

// TestShortDuration checks that a duration has two units at most.
func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 61 * time.Second: "1m1s",
		time.Hour + time.Second: "1h", 25*time.Hour + time.Minute: "1d1h", 90 * 24 * time.Hour: "90d",
	} {
		if got := Short(d); got != want {
			t.Errorf("Short(%v) = %q, want %q", d, got, want)
		}
	}
}

// TestDistanceToTime checks the words for a time in the future and in the past.
func TestDistanceToTime(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 499 * time.Millisecond: "now", 500 * time.Millisecond: "in 1s", -499 * time.Millisecond: "now",
		-1500 * time.Millisecond: "2s ago", 39600 * time.Millisecond: "in 40s", -3 * time.Minute: "3m ago",
	} {
		if got := Distance(now.Add(d), now); got != want {
			t.Errorf("Distance of %v = %q, want %q", d, got, want)
		}
	}
}

// TestParseDuration checks that days are a unit, and that a duration is longer than zero.
func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "90d": 90 * 24 * time.Hour} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "30", "0", "0s", "-5m", "d", "-1d", "1.5d", "99999999d", "tomorrow"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", in, got)
		}
	}
}

func TestParsePast(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		text string
		end  bool
		want string // in UTC; "" is an error
	}{
		{"2026-03-29", false, "2026-03-28T23:00:00Z"},
		{"2026-03-29", true, "2026-03-29T22:00:00Z"}, // a day of 23 hours
		{"2026-03-29 08:00", true, "2026-03-29T06:00:00Z"},
		{"2026-03-29T08:00", false, "2026-03-29T06:00:00Z"},
		{"2026-03-29T08:00:00Z", false, "2026-03-29T08:00:00Z"},
		{"2d", false, "2026-03-28T12:00:00Z"},
		{"90m", true, "2026-03-30T10:30:00Z"},
		{"-2d", false, ""},
		{"2026-02-30", false, ""},
		{"soon", false, ""},
		{"", false, ""},
	} {
		got, err := ParsePast(tt.text, now, berlin, tt.end)
		if (err != nil) != (tt.want == "") || err == nil && got.UTC().Format(time.RFC3339) != tt.want {
			t.Errorf("%q, end %v: %v, %v; want %s", tt.text, tt.end, got.UTC(), err, tt.want)
		}
	}
}
