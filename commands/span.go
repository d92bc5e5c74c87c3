package commands

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
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

// length is the value of a flag that is a length of time; 0 where the flag was
// not given and stands for none.
type length time.Duration

// Set reads it as agent.toml's are read.
func (l *length) Set(text string) error {
	d, err := parseSpan(span(text))
	if err == nil {
		*l = length(d)
	}
	return err
}

// String is for --help.
func (l *length) String() string {
	if *l == 0 {
		return ""
	}
	return short(time.Duration(*l))
}

func lengthFlag(flag, usage string, otherwise time.Duration) cli.Flag {
	return &cli.GenericFlag{Name: flag, Usage: usage, Value: (*length)(&otherwise)}
}

// lengthOf is what a lengthFlag was given.
func lengthOf(c *cli.Context, flag string) time.Duration {
	return time.Duration(*c.Generic(flag).(*length))
}
