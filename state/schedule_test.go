package state

import (
	"testing"
	"time"
)

func TestNextFireByTheWallClock(t *testing.T) {
	for _, tt := range []struct {
		name, zone     string
		interval       time.Duration
		after, nextUTC string // after as RFC 3339, with its offset
	}{
		{"within the half hour", "UTC", 30 * time.Minute, "2026-03-01T10:12:30Z", "2026-03-01T10:30:00Z"},
		{"strictly after", "UTC", 30 * time.Minute, "2026-03-01T10:30:00Z", "2026-03-01T11:00:00Z"},
		{"just before", "UTC", 30 * time.Minute, "2026-03-01T10:29:59.999999999Z", "2026-03-01T10:30:00Z"},
		{"just after", "UTC", 30 * time.Minute, "2026-03-01T10:30:00.000000001Z", "2026-03-01T11:00:00Z"},
		{"each minute", "UTC", time.Minute, "2026-03-01T10:12:59Z", "2026-03-01T10:13:00Z"},
		{"over new year", "UTC", time.Minute, "2026-12-31T23:59:00Z", "2027-01-01T00:00:00Z"},
		{"hourly", "UTC", time.Hour, "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z"},
		{"two hours", "UTC", 2 * time.Hour, "2026-03-01T10:01:00Z", "2026-03-01T12:00:00Z"},
		{"daily", "UTC", 24 * time.Hour, "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"},

		// Zones that are not whole hours from UTC fire by their own clocks.
		{"Kolkata +05:30, half hour", "Asia/Kolkata", 30 * time.Minute, "2026-03-01T10:12:00+05:30", "2026-03-01T05:00:00Z"},
		{"Kolkata +05:30, hourly", "Asia/Kolkata", time.Hour, "2026-03-01T10:12:00+05:30", "2026-03-01T05:30:00Z"},
		{"Kathmandu +05:45, half hour", "Asia/Kathmandu", 30 * time.Minute, "2026-03-01T10:12:00+05:45", "2026-03-01T04:45:00Z"},
		{"Kathmandu +05:45, 20 min", "Asia/Kathmandu", 20 * time.Minute, "2026-03-01T10:12:00+05:45", "2026-03-01T04:35:00Z"},

		// Berlin, 29 March 2026: 02:00 CET becomes 03:00 CEST.
		{"spring, minutes go on", "Europe/Berlin", time.Minute, "2026-03-29T01:59:00+01:00", "2026-03-29T01:00:00Z"},
		{"spring, half hour", "Europe/Berlin", 30 * time.Minute, "2026-03-29T01:45:00+01:00", "2026-03-29T01:00:00Z"},
		{"spring, hourly", "Europe/Berlin", time.Hour, "2026-03-29T01:00:00+01:00", "2026-03-29T01:00:00Z"},
		{"spring, 02:00 is skipped", "Europe/Berlin", 2 * time.Hour, "2026-03-29T00:30:00+01:00", "2026-03-29T02:00:00Z"},
		{"spring, daily is 23 h", "Europe/Berlin", 24 * time.Hour, "2026-03-29T00:00:00+01:00", "2026-03-29T22:00:00Z"},

		// Berlin, 25 October 2026: 03:00 CEST becomes 02:00 CET.
		{"autumn, minutes go on", "Europe/Berlin", time.Minute, "2026-10-25T02:59:00+02:00", "2026-10-25T01:00:00Z"},
		{"autumn, half hour", "Europe/Berlin", 30 * time.Minute, "2026-10-25T02:30:00+02:00", "2026-10-25T01:00:00Z"},
		{"autumn, 02:00 the first time", "Europe/Berlin", 2 * time.Hour, "2026-10-25T00:00:00+02:00", "2026-10-25T00:00:00Z"},
		{"autumn, 02:00 the second time", "Europe/Berlin", 2 * time.Hour, "2026-10-25T02:00:00+02:00", "2026-10-25T01:00:00Z"},
		{"autumn, daily is 25 h", "Europe/Berlin", 24 * time.Hour, "2026-10-25T00:00:00+02:00", "2026-10-25T23:00:00Z"},

		// Lord Howe moves its clocks by half an hour: 02:00 becomes 02:30.
		{"Lord Howe, half hour", "Australia/Lord_Howe", 30 * time.Minute, "2026-10-04T01:45:00+10:30", "2026-10-03T15:30:00Z"},
		{"Lord Howe, 02:00 is skipped", "Australia/Lord_Howe", time.Hour, "2026-10-04T01:45:00+10:30", "2026-10-03T16:00:00Z"},

		// Havana, 8 March 2026: 00:00 becomes 01:00; 1 November: 01:00 becomes 00:00.
		{"a day that begins at 01:00", "America/Havana", 24 * time.Hour, "2026-03-07T12:00:00-05:00", "2026-03-08T05:00:00Z"},
		{"a day with two midnights", "America/Havana", 24 * time.Hour, "2026-11-01T00:00:00-04:00", "2026-11-02T05:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			zone, err := time.LoadLocation(tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			after, err := time.Parse(time.RFC3339Nano, tt.after)
			if err != nil {
				t.Fatal(err)
			}
			got := nextFire(tt.interval, after, zone)
			if got.UTC().Format(time.RFC3339Nano) != tt.nextUTC {
				t.Errorf("nextFire(%v, %v) = %v, want %s", tt.interval, after.In(zone), got, tt.nextUTC)
			}
		})
	}
}

// FuzzNextFire checks that the next minute is never further away than the interval,
// plus the hour or so that a clock change adds, and that no minute in between fires.
func FuzzNextFire(f *testing.F) {
	f.Add(int64(1774745999), uint8(3), uint8(1))
	f.Add(int64(1792893600), uint8(17), uint8(2))
	intervals := []time.Duration{
		time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute, 6 * time.Minute, 10 * time.Minute,
		12 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
		4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
	var zones []*time.Location
	for _, name := range []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/Havana", "America/St_Johns"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			f.Fatal(err)
		}
		zones = append(zones, zone)
	}
	f.Fuzz(func(t *testing.T, unix int64, i, z uint8) {
		interval := intervals[int(i)%len(intervals)]
		after := time.Unix(unix%4e9, 0).In(zones[int(z)%len(zones)])
		next := nextFire(interval, after, after.Location())
		if !next.After(after) || next.Second() != 0 {
			t.Fatalf("nextFire(%v, %v) = %v", interval, after, next)
		}
		if wait := next.Sub(after); wait > 2*interval || wait > interval+2*time.Hour {
			t.Fatalf("nextFire(%v, %v) = %v, %v away", interval, after, next, wait)
		}
		if again := nextFire(interval, next.Add(-time.Nanosecond), after.Location()); !again.Equal(next) {
			t.Fatalf("just before %v the next is %v", next, again)
		}
	})
}
