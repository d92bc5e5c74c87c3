package cron

import (
	"fmt"
	"strconv"
	"time"
)

const day = 24 * time.Hour

// Expr returns the five time fields of a crontab line that fires once per
// interval: 30m is "*/30 * * * *", 1m is "*/1 * * * *", 60m is "0 * * * *",
// 2h is "0 */2 * * *" and 24h is "0 0 * * *".
//
// The interval must be a whole number of minutes that divides an hour, or of
// hours that divides a day. Otherwise Expr returns an error that lists the valid
// intervals.
func Expr(interval time.Duration) (string, error) {
	switch {
	case !expressible(interval):
		return "", fmt.Errorf("interval %v does not fit a crontab line: use 1, 2, 3, 4, 5, 6, 10, 12, 15, 20 or 30 minutes, or 1, 2, 3, 4, 6, 8, 12 or 24 hours", interval)
	case interval < time.Hour:
		return fmt.Sprintf("*/%d * * * *", interval/time.Minute), nil
	case interval == time.Hour:
		return "0 * * * *", nil
	case interval < day:
		return fmt.Sprintf("0 */%d * * *", interval/time.Hour), nil
	default:
		return "0 0 * * *", nil
	}
}

// AlarmExpr returns the five time fields of a crontab line that fires at this minute, in the
// time zone of minute: 14:12 on 22 November is "12 14 22 11 *". It repeats each year.
//
// When a clock change repeats an hour, the second pass has the hour "*". The daemons of Vixie's
// family run a job with a fixed time only in the first pass, and would skip it in the second.
func AlarmExpr(minute time.Time) string {
	hour := strconv.Itoa(minute.Hour())
	if repeated(minute) {
		hour = "*"
	}
	return fmt.Sprintf("%d %s %d %d *", minute.Minute(), hour, minute.Day(), int(minute.Month()))
}

// repeated reports whether the clock showed the local time of t before, because it was set back
// within the last three hours. cron treats a larger change as a new clock.
func repeated(t time.Time) bool {
	_, now := t.Zone()
	_, before := t.Add(-3 * time.Hour).Zone()
	back := time.Duration(before-now) * time.Second
	if back <= 0 {
		return false
	}
	_, then := t.Add(-back).Zone()
	return then != now
}

func expressible(interval time.Duration) bool {
	if interval < time.Minute || interval > day {
		return false
	}
	if interval <= time.Hour {
		return interval%time.Minute == 0 && time.Hour%interval == 0
	}
	return interval%time.Hour == 0 && day%interval == 0
}
