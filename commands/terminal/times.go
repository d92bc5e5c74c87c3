package terminal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Clock formats a time in the local zone, with the date unless it is today.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// Distance formats the distance of a time from now: "in 40s", "3m ago", "now".
func Distance(t, now time.Time) string {
	switch d := t.Sub(now).Round(time.Second); {
	case d == 0:
		return "now"
	case d > 0:
		return "in " + Short(d)
	default:
		return Short(-d) + " ago"
	}
}

// Short formats a duration with its two largest units: "1d1h", "59s".
func Short(d time.Duration) string {
	const day = 24 * time.Hour
	for _, u := range []struct {
		large, small         time.Duration
		largeName, smallName string
	}{{day, time.Hour, "d", "h"}, {time.Hour, time.Minute, "h", "m"}, {time.Minute, time.Second, "m", "s"}} {
		if d < u.large {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.large, u.largeName)
		if rest := d % u.large / u.small; rest > 0 {
			text += fmt.Sprintf("%d%s", rest, u.smallName)
		}
		return text
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// ErrTime is the error of ParsePast. It continues a sentence that begins with the text.
var ErrTime = errors.New(`is not a time such as 2026-03-02, "2026-03-02 08:00", RFC 3339, or a duration ago such as 30d`)

// ParsePast parses a time in the past: a date, a date and a time of day, RFC 3339, or a duration
// before now. A time without a zone is of the zone loc. A date is its first moment, or with end the
// first moment of the next day.
func ParsePast(text string, now time.Time, loc *time.Location, end bool) (time.Time, error) {
	if at, err := time.ParseInLocation(time.DateOnly, text, loc); err == nil {
		if end {
			at = at.AddDate(0, 0, 1)
		}
		return at, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(layout, text, loc); err == nil {
			return at, nil
		}
	}
	if d, err := ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, ErrTime
}

var errDuration = errors.New(`is not a duration such as "90s", "30m", "2h" or "90d"`)

// maxDays is the longest duration in days: a century.
const maxDays = 36500

// ParseDuration parses a duration above zero, such as "1h30m" or "90d". It accepts the syntax of
// time.ParseDuration, and whole days. Its errors continue a sentence that begins with the text.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > maxDays {
			return 0, errDuration
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errDuration
	}
	if d <= 0 {
		return 0, errors.New("must be longer than zero")
	}
	return d, nil
}
