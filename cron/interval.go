package cron

import (
	"fmt"
	"time"
)

const day = 24 * time.Hour

// Expr returns the five time fields of a crontab line that fires once per
// interval: 30m is "*/30 * * * *", 1m is "*/1 * * * *", 60m is "0 * * * *",
// 2h is "0 */2 * * *" and 24h is "0 0 * * *" (DESIGN 9).
//
// An interval that is not a whole number of minutes dividing 60 minutes, or
// of hours dividing 24 hours, cannot be said in one line; it is an error that
// names the intervals which can.
func Expr(interval time.Duration) (string, error) {
	switch {
	case !expressible(interval):
		return "", fmt.Errorf("interval %v cannot be a crontab line: use 1, 2, 3, 4, 5, 6, 10, 12, 15, 20 or 30 minutes, or 1, 2, 3, 4, 6, 8, 12 or 24 hours", interval)
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

func expressible(interval time.Duration) bool {
	if interval < time.Minute || interval > day {
		return false
	}
	if interval <= time.Hour {
		return interval%time.Minute == 0 && time.Hour%interval == 0
	}
	return interval%time.Hour == 0 && day%interval == 0
}

// Next returns the first minute strictly after after at which the line of
// [Expr] fires, in after's location. It reads the wall clock as cron does:
//
//   - an hour that a clock change skips does not fire, and one that it repeats
//     fires twice, since such lines have a "*" in the minute or hour field;
//   - the daily line fires at the first minute of each local day, which is
//     00:00 save where a clock change skips midnight, and never twice a day.
//
// For an interval that Expr refuses it returns the zero Time.
func Next(interval time.Duration, after time.Time) time.Time {
	if !expressible(interval) {
		return time.Time{}
	}
	// The steps are in real time, one minute each: a local time may not exist,
	// or exist twice, but every minute that passes has one. The longest way is
	// a day and a clock change.
	last := after.Round(0).Add(-sinceMinute(after))
	for {
		minute := last.Add(time.Minute)
		if fires(interval, last, minute) {
			return minute
		}
		last = minute
	}
}

func sinceMinute(t time.Time) time.Duration {
	return time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
}

// fires says whether the line of interval fires at minute, of which last is
// the minute before.
func fires(interval time.Duration, last, minute time.Time) bool {
	switch {
	case interval < time.Hour:
		return minute.Minute()%int(interval/time.Minute) == 0
	case interval < day:
		return minute.Minute() == 0 && minute.Hour()%int(interval/time.Hour) == 0
	default:
		return minute.Day() != last.Day()
	}
}
