package cron

import (
	"fmt"
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

func expressible(interval time.Duration) bool {
	if interval < time.Minute || interval > day {
		return false
	}
	if interval <= time.Hour {
		return interval%time.Minute == 0 && time.Hour%interval == 0
	}
	return interval%time.Hour == 0 && day%interval == 0
}
