package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	crontab "github.com/netresearch/go-cron"
)

// Times are the times of a crontab line: minute, hour, day of the month, month and day of the
// week, with the meaning of crontab(5) (docs/decisions/0033-crontab-lines-and-prompt-times.md).
type Times struct {
	schedule crontab.Schedule

	// followsClock is set if the minutes or hours of the line begin with a *. Then the line follows
	// the clock: times that a clock change skips are skipped, and times that it repeats are
	// repeated.
	followsClock bool
}

// maxYears limits the search for a time. February 29 comes within eight years.
const maxYears = 12

// parsers read the five fields. The key reports whether both days must match. crontab(5): the
// days are "either", unless one of the two fields begins with a *.
var parsers = sync.OnceValue(func() map[bool]crontab.Parser {
	const fields = crontab.Minute | crontab.Hour | crontab.Dom | crontab.Month | crontab.Dow | crontab.Descriptor
	return map[bool]crontab.Parser{
		true:  crontab.MustNewParser(fields).WithMaxSearchYears(maxYears),
		false: crontab.MustNewParser(fields | crontab.DowOrDom).WithMaxSearchYears(maxYears),
	}
})

// ErrNever means that the times never come, such as those of February 30.
var ErrNever = errors.New("names a date that does not exist")

// fieldNames are the fields of a crontab line, in their order.
var fieldNames = []string{"minute", "hour", "day of the month", "month", "day of the week"}

// ParseTimes parses the times of a crontab line: five fields with numbers, ranges, lists, steps
// and English names of months and days, or @hourly, @daily, @midnight, @weekly, @monthly,
// @yearly or @annually. The error names the wrong field. It wraps ErrNever if the times never
// come.
func ParseTimes(text string) (Times, error) {
	fields := strings.Fields(text)
	switch {
	case len(fields) == 0:
		return Times{}, errors.New("is empty")
	case strings.Contains(fields[0], "="):
		return Times{}, errors.New("sets a time zone; times are in the zone of this machine")
	case strings.EqualFold(fields[0], "@every"), strings.EqualFold(fields[0], "@reboot"):
		return Times{}, fmt.Errorf("%s is not a time of day", fields[0])
	case strings.HasPrefix(fields[0], "@"):
		return parseTimes(strings.ToLower(fields[0]), strings.EqualFold(fields[0], "@hourly"), true, len(fields) == 1)
	case len(fields) == 6:
		return Times{}, errors.New("has six fields: expected minute, hour, day of the month, month, day of the week, without seconds or years")
	case len(fields) != 5:
		return Times{}, fmt.Errorf("has %d fields: expected minute, hour, day of the month, month, day of the week", len(fields))
	}
	for i, field := range fields {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = field
		if _, err := parsers()[true].Parse(strings.Join(alone, " ")); err != nil || strings.Contains(field, "?") {
			return Times{}, fmt.Errorf("%q is not a valid %s", field, fieldNames[i])
		}
	}
	return parseTimes(strings.Join(fields, " "), beginsWithStar(fields[0]) || beginsWithStar(fields[1]), beginsWithStar(fields[2]) || beginsWithStar(fields[4]), true)
}

// beginsWithStar reports whether a field begins with a *, the criterion of crontab(5).
func beginsWithStar(field string) bool { return strings.HasPrefix(field, "*") }

func parseTimes(text string, follows, bothDays, whole bool) (Times, error) {
	schedule, err := parsers()[bothDays].Parse(text)
	if err != nil || !whole {
		return Times{}, fmt.Errorf("%q is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually", text)
	}
	t := Times{schedule: schedule, followsClock: follows}
	if schedule.Next(time.Date(2000, 3, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Times{}, ErrNever
	}
	return t, nil
}

// Next returns the first time later than after, to the minute, in the zone loc (nil: UTC). It
// returns the zero time if no time comes within twelve years. It treats a clock change as cron
// does:
//
//   - A time that the change skips comes once, at the change.
//   - A time that the change repeats comes once, the first time.
//   - A line whose minutes or hours begin with a * follows the clock instead: its
//     times are skipped and repeated.
func (t Times) Next(after time.Time, loc *time.Location) time.Time {
	if loc == nil {
		loc = time.UTC
	}
	after = after.In(loc)
	begin, end := after.ZoneBounds()
	offset := offsetAt(after)
	from := clockTime(after, offset)
	if !t.followsClock && !begin.IsZero() {
		// The clock already showed these times before it was set back.
		if before := clockTime(begin.Add(-time.Second), offsetAt(begin.Add(-time.Second))); before.After(from) {
			from = before
		}
	}
	// The library knows only clocks that never change, like those of UTC. So the loop goes
	// through the periods of the zone between two clock changes.
	for next := t.schedule.Next(from); ; {
		at := next.Add(-offset)
		switch {
		case next.IsZero():
			return time.Time{}
		case end.IsZero() || at.Before(end):
			return at
		}
		later := offsetAt(end)
		switch first := clockTime(end, later); {
		case t.followsClock:
			next = t.schedule.Next(first.Add(-time.Second))
		case next.Before(first): // skipped
			return end.UTC()
		}
		offset = later
		_, end = end.ZoneBounds()
	}
}

// clockTime returns the time on a clock that is offset ahead of UTC, as a time of UTC.
func clockTime(t time.Time, offset time.Duration) time.Time { return t.Add(offset).UTC() }

// offsetAt returns how far the clocks of t's zone are ahead of UTC.
func offsetAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

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
