package cycle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentstateloop/state"
)

// The forms of a time, besides RFC 3339. A time without a date is the next one that a clock
// shows.
const (
	dateAndTime = "2006-01-02 15:04"
	timeOfDay   = "15:04"
	zoneOffset  = "-07:00"
)

// ErrNotATime means that a text is not a time, in any form.
var ErrNotATime = errors.New("is not a time")

// ParseWhen returns the time of a reminder: a duration such as 10m, 2h or 3d, or a time as
// 2026-03-02 08:00, 08:00 or RFC 3339. A time without a zone is local to loc. The time must be
// after now, by a year at most.
func ParseWhen(when string, now time.Time, loc *time.Location) (time.Time, error) {
	if loc == nil {
		loc = time.UTC
	}
	when = strings.TrimSpace(when)
	at, ok, err := parseTime(when, now.In(loc))
	if !ok {
		var d time.Duration
		if d, err = parseSpan(when); err == nil {
			at = now.Add(d)
		}
	}
	switch {
	case err != nil:
		return time.Time{}, err
	case !at.After(now):
		return time.Time{}, fmt.Errorf("%s has passed: now it is %s", when, now.In(loc).Format(dateAndTime))
	case at.Sub(now) > state.MaxReminder:
		return time.Time{}, fmt.Errorf("%s is too far ahead: a reminder is %d days ahead at most", when, int(state.MaxReminder/(24*time.Hour)))
	}
	return at.UTC(), nil
}

// parseTime parses a time. ok is false if when is not in one of its forms.
func parseTime(when string, now time.Time) (at time.Time, ok bool, err error) {
	if at, err := time.Parse(time.RFC3339, when); err == nil {
		return at, true, nil
	}
	for _, seconds := range []string{"", ":05"} {
		if at, err := time.ParseInLocation(dateAndTime+seconds, strings.Replace(when, "T", " ", 1), now.Location()); err == nil {
			return at, true, nil
		}
	}
	clock, err := time.Parse(timeOfDay, when)
	if err != nil {
		return time.Time{}, false, nil
	}
	// A change of the clocks may skip a time of day, or repeat it. So look at each minute that
	// passes.
	at = now.Truncate(time.Minute).Add(time.Minute)
	for at.Hour() != clock.Hour() || at.Minute() != clock.Minute() {
		at = at.Add(time.Minute)
	}
	return at, true, nil
}

// maxDays limits the days of a duration: a hundred years.
const maxDays = 36500

// parseSpan parses a duration: days, or the syntax of Go.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= maxDays {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf(`%q %w: write a duration such as 10m, 2h or 3d, or a time such as 08:00, "2026-03-02 08:00" or 2026-03-02T08:00:00Z`, text, ErrNotATime)
	}
	if d <= 0 {
		return 0, fmt.Errorf("%s is not ahead: a duration must be longer than zero", text)
	}
	return d, nil
}
