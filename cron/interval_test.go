package cron

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func TestExpr(t *testing.T) {
	for _, tt := range []struct {
		interval time.Duration
		want     string
	}{
		{time.Minute, "*/1 * * * *"},
		{5 * time.Minute, "*/5 * * * *"},
		{30 * time.Minute, "*/30 * * * *"},
		{60 * time.Minute, "0 * * * *"},
		{2 * time.Hour, "0 */2 * * *"},
		{12 * time.Hour, "0 */12 * * *"},
		{24 * time.Hour, "0 0 * * *"},
	} {
		got, err := Expr(tt.interval)
		if err != nil || got != tt.want {
			t.Errorf("Expr(%v) = %q, %v; want %q", tt.interval, got, err, tt.want)
		}
	}
}

func TestExprErrors(t *testing.T) {
	for _, interval := range []time.Duration{
		0, -time.Minute, time.Second, 30 * time.Second, 90 * time.Second, 7 * time.Minute, 45 * time.Minute,
		90 * time.Minute, 5 * time.Hour, 30 * time.Minute * 5, 48 * time.Hour, time.Minute + 1, 1<<63 - 1,
	} {
		got, err := Expr(interval)
		if err == nil {
			t.Errorf("Expr(%v) = %q, want an error", interval, got)
		} else if !strings.Contains(err.Error(), "15, 20 or 30 minutes") {
			t.Errorf("Expr(%v): %v; want the intervals that work", interval, err)
		}
	}
}

func TestAlarmExpr(t *testing.T) {
	for _, tt := range []struct{ name, zone, at, want string }{
		{"an ordinary minute", "UTC", "2026-11-22T14:12:00Z", "12 14 22 11 *"},
		{"in local time", "Europe/Berlin", "2026-11-22T23:30:00Z", "30 0 23 11 *"},
		{"a leap day", "UTC", "2028-02-29T00:00:00Z", "0 0 29 2 *"},
		// Berlin: 02:00 becomes 03:00 on 29 March.
		{"after the gap", "Europe/Berlin", "2026-03-29T01:00:00Z", "0 3 29 3 *"},
		{"before the gap", "Europe/Berlin", "2026-03-29T00:59:00Z", "59 1 29 3 *"},
		// 03:00 becomes 02:00 on 25 October.
		{"02:30 the first time", "Europe/Berlin", "2026-10-25T00:30:00Z", "30 2 25 10 *"},
		{"02:30 the second time", "Europe/Berlin", "2026-10-25T01:30:00Z", "30 * 25 10 *"},
		{"02:00 the second time", "Europe/Berlin", "2026-10-25T01:00:00Z", "0 * 25 10 *"},
		{"03:00, which is there once", "Europe/Berlin", "2026-10-25T02:00:00Z", "0 3 25 10 *"},
		{"half an hour back", "Australia/Lord_Howe", "2026-04-04T15:10:00Z", "40 * 5 4 *"},
		{"and then", "Australia/Lord_Howe", "2026-04-04T15:30:00Z", "0 2 5 4 *"},
		{"midnight the second time", "America/Havana", "2026-11-01T05:15:00Z", "15 * 1 11 *"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339, tt.at)
			if err != nil {
				t.Fatal(err)
			}
			zone, err := time.LoadLocation(tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			if got := AlarmExpr(at.In(zone)); got != tt.want {
				t.Errorf("AlarmExpr(%v) = %q, want %q", at.In(zone), got, tt.want)
			}
		})
	}
}
