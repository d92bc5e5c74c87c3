package commands

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

var errSpan = errors.New(`is no length of time: write "90s", "30m", "2h" or "90d"`)

// parseSpan reads a length of time above zero: what time.ParseDuration reads,
// and whole days.
func parseSpan(s span) (time.Duration, error) {
	if days, ok := strings.CutSuffix(string(s), "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 36500 {
			return 0, errSpan
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(string(s))
	if err != nil {
		return 0, errSpan
	}
	if d <= 0 {
		return 0, errors.New("must be longer than nothing")
	}
	return d, nil
}
