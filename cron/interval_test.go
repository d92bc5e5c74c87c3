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

func TestExprRefuses(t *testing.T) {
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
