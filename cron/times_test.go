package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"agentstateloop/cron"
)

// firings returns the times between two instants at which at fires, in the local time of zone.
func firings(t *testing.T, zone, at, from, to string) string {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	times, err := cron.ParseTimes(at)
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	begin, beginErr := time.ParseInLocation("2006-01-02 15:04", from, loc)
	end, endErr := time.ParseInLocation("2006-01-02 15:04", to, loc)
	if err := errors.Join(beginErr, endErr); err != nil {
		t.Fatal(err)
	}
	var all []string
	for next := times.Next(begin, loc); next.Before(end) && !next.IsZero(); next = times.Next(next, loc) {
		if len(all) == 100 {
			t.Fatalf("%s never ends: %v", at, all)
		}
		all = append(all, next.In(loc).Format("2 15:04-07:00"))
	}
	return strings.Join(all, ", ")
}

// TestNextOverClockChanges follows crontab times over days on which the clocks are changed: a fixed time
// comes once a day, and a time with a star whenever the clock shows it.
func TestNextOverClockChanges(t *testing.T) {
	for _, c := range []struct{ name, zone, at, from, to, want string }{
		{"an ordinary day", "Europe/Berlin", "0 8 * * 1-5", "2026-03-06 12:00", "2026-03-10 12:00", "9 08:00+01:00, 10 08:00+01:00"},
		{"skipped", "Europe/Berlin", "30 2 * * *", "2026-03-28 00:00", "2026-03-31 00:00", "28 02:30+01:00, 29 03:00+02:00, 30 02:30+02:00"},
		{"the first minute that is skipped", "Europe/Berlin", "0 2 * * *", "2026-03-28 12:00", "2026-03-30 12:00", "29 03:00+02:00, 30 02:00+02:00"},
		{"several skipped come once", "Europe/Berlin", "0,20,40 2 * * *", "2026-03-28 12:00", "2026-03-29 12:00", "29 03:00+02:00"},
		{"just before the skipped hour", "Europe/Berlin", "59 1 * * *", "2026-03-28 12:00", "2026-03-29 12:00", "29 01:59+01:00"},
		{"skipped, and at the change", "Europe/Berlin", "30 2,3 * * *", "2026-03-28 12:00", "2026-03-29 12:00", "29 03:00+02:00, 29 03:30+02:00"},
		{"follows the clock over the skipped hour", "Europe/Berlin", "*/30 1-3 * * *", "2026-03-28 12:00", "2026-03-29 12:00", "29 01:00+01:00, 29 01:30+01:00, 29 03:00+02:00, 29 03:30+02:00"},
		{"hourly over the skipped hour", "Europe/Berlin", "30 * * * *", "2026-03-29 01:00", "2026-03-29 05:00", "29 01:30+01:00, 29 03:30+02:00, 29 04:30+02:00"},
		{"follows the clock, all skipped", "Europe/Berlin", "*/20 2 * * *", "2026-03-29 00:00", "2026-03-30 02:30", "30 02:00+02:00, 30 02:20+02:00"},
		{"repeated", "Europe/Berlin", "30 2 * * *", "2026-10-24 00:00", "2026-10-27 00:00", "24 02:30+02:00, 25 02:30+02:00, 26 02:30+01:00"},
		{"the first minute after the repeated hour", "Europe/Berlin", "0 3 * * *", "2026-10-24 12:00", "2026-10-26 12:00", "25 03:00+01:00, 26 03:00+01:00"},
		{"hourly while repeated", "Europe/Berlin", "@hourly", "2026-10-25 01:00", "2026-10-25 04:00", "25 02:00+02:00, 25 02:00+01:00, 25 03:00+01:00"},
		{"follows the clock while repeated", "Europe/Berlin", "*/20 2 * * *", "2026-10-25 00:00", "2026-10-25 12:00", "25 02:00+02:00, 25 02:20+02:00, 25 02:40+02:00, 25 02:00+01:00, 25 02:20+01:00, 25 02:40+01:00"},
		{"half an hour skipped", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03 12:00", "2026-10-05 12:00", "4 02:30+11:00, 5 02:15+11:00"},
		{"after the half hour", "Australia/Lord_Howe", "45 2 * * *", "2026-10-03 12:00", "2026-10-05 12:00", "4 02:45+11:00, 5 02:45+11:00"},
		{"half an hour repeated", "Australia/Lord_Howe", "45 1 * * *", "2026-04-04 12:00", "2026-04-06 12:00", "5 01:45+11:00, 6 01:45+10:30"},
		{"midnight skipped in Beirut", "Asia/Beirut", "@daily", "2026-03-28 12:00", "2026-03-30 12:00", "29 01:00+03:00, 30 00:00+03:00"},
		{"midnight skipped in Sao Paulo", "America/Sao_Paulo", "30 0 4 11 *", "2018-11-03 12:00", "2018-11-05 12:00", "4 01:00-02:00"},
		{"midnight repeated in Havana", "America/Havana", "0 0 * * *", "2026-10-31 12:00", "2026-11-03 12:00", "1 00:00-04:00, 2 00:00-05:00, 3 00:00-05:00"},
		{"a day skipped in Apia", "Pacific/Apia", "0 8 * * *", "2011-12-29 00:00", "2012-01-01 00:00", "29 08:00-10:00, 31 00:00+14:00, 31 08:00+14:00"},
		{"twice around Ramadan", "Africa/Casablanca", "30 2 * * *", "2026-02-14 12:00", "2026-02-16 12:00", "15 02:30+01:00, 16 02:30+00:00"},
		{"and back", "Africa/Casablanca", "30 2 * * *", "2026-03-21 12:00", "2026-03-23 12:00", "22 03:00+01:00, 23 02:30+01:00"},
		{"no changes", "UTC", "30 2 * * *", "2026-03-28 12:00", "2026-03-30 12:00", "29 02:30+00:00, 30 02:30+00:00"},
		{"either day", "UTC", "0 8 13 * fri", "2026-11-01 00:00", "2026-11-21 00:00", "6 08:00+00:00, 13 08:00+00:00, 20 08:00+00:00"},
		{"a step of days is a star", "UTC", "0 8 */2 * mon", "2026-11-01 00:00", "2026-11-30 00:00", "9 08:00+00:00, 23 08:00+00:00"},
		{"Sunday is 0 and 7", "UTC", "0 8 * * 6-7", "2026-11-13 00:00", "2026-11-16 00:00", "14 08:00+00:00, 15 08:00+00:00"},
		{"leap day", "UTC", "0 8 29 feb *", "2026-11-13 00:00", "2030-01-01 00:00", "29 08:00+00:00"},
		{"leap day after eight years", "UTC", "0 8 29 2 *", "2096-03-01 00:00", "2105-01-01 00:00", "29 08:00+00:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := firings(t, c.zone, c.at, c.from, c.to); got != c.want {
				t.Errorf("%s in %s:\n%s\nwant\n%s", c.at, c.zone, got, c.want)
			}
		})
	}
}

// TestNextWithinRepeatedHour checks the next time before, in and after the hour that comes twice.
func TestNextWithinRepeatedHour(t *testing.T) {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	times, err := cron.ParseTimes("30 2 * * *")
	if err != nil {
		t.Fatal(err)
	}
	first := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
	for from, want := range map[time.Time]time.Time{
		first.Add(-time.Second):     first,
		first:                       first.Add(25 * time.Hour),
		first.Add(40 * time.Minute): first.Add(25 * time.Hour), // 02:10 for the second time
		first.Add(time.Hour):        first.Add(25 * time.Hour), // 02:30 for the second time
		first.Add(90 * time.Minute): first.Add(25 * time.Hour),
	} {
		if got := times.Next(from, loc); !got.Equal(want) {
			t.Errorf("after %v: %v, want %v", from.In(loc), got.In(loc), want.In(loc))
		}
	}
}

// TestParseTimesErrors checks that errors name the field.
func TestParseTimesErrors(t *testing.T) {
	for at, want := range map[string]string{
		"":                      "is empty",
		"0 8 * *":               "has 4 fields",
		"0 0 8 * * *":           "six fields: expected minute",
		"60 8 * * *":            `"60" is not a valid minute`,
		"*/0 8 * * *":           `"*/0" is not a valid minute`,
		"0 24 * * *":            `"24" is not a valid hour`,
		"0 8 32 * *":            `"32" is not a valid day of the month`,
		"0 8 L * *":             `"L" is not a valid day of the month`,
		"0 8 ? * *":             `"?" is not a valid day of the month`,
		"0 8 * 13 *":            `"13" is not a valid month`,
		"0 8 * * 8":             `"8" is not a valid day of the week`,
		"0 8 * * moonday":       `"moonday" is not a valid day of the week`,
		"0 8 * * 1#2":           `"1#2" is not a valid day of the week`,
		"H 8 * * *":             `"H" is not a valid minute`,
		"0 8 30 2 *":            "does not exist",
		"0 8 31 feb,apr *":      "does not exist",
		"@every 1h":             "is not a time of day",
		"@reboot":               "is not a time of day",
		"@noon":                 "is not one of @hourly",
		"@daily please":         "is not one of @hourly",
		"TZ=UTC 0 8 * * *":      "sets a time zone",
		"CRON_TZ=UTC 0 8 * * *": "sets a time zone",
	} {
		_, err := cron.ParseTimes(at)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", at, err, want)
		}
		if strings.Contains(want, "does not exist") != errors.Is(err, cron.ErrNever) {
			t.Errorf("%q: %v is ErrNever: %v", at, err, errors.Is(err, cron.ErrNever))
		}
	}
}

// FuzzTimes checks that valid times have a next time later than the last one, to the minute, in
// zones with clock changes.
func FuzzTimes(f *testing.F) {
	for _, at := range []string{"0 8 * * 1-5", "@daily", "*/7 2 29 2 *", "30 2 * * sun", "0-59/3 22-2 * jan-mar *", "5,5 1 1 1 1"} {
		f.Add(at, int64(1774742400))
	}
	var zones []*time.Location
	for _, name := range []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"} {
		if loc, err := time.LoadLocation(name); err == nil {
			zones = append(zones, loc)
		}
	}
	f.Fuzz(func(t *testing.T, at string, unix int64) {
		times, err := cron.ParseTimes(at)
		if err != nil {
			return
		}
		from := time.Unix(unix%4e9, 0)
		for _, loc := range zones {
			after := from
			for range 5 {
				next := times.Next(after, loc)
				if next.IsZero() {
					break
				}
				if !next.After(after) || next.Second() != 0 {
					t.Fatalf("%q in %v: %v after %v", at, loc, next, after)
				}
				after = next
			}
		}
	})
}
