package cron

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/limittest"
)

// longJob returns a job whose line has n bytes.
func longJob(t *testing.T, n int) Job {
	j := job("goulard3120")
	j.Config += strings.Repeat("x", n-len(mustLine(t, j)))
	return j
}

func TestLimits(t *testing.T) {
	printed := func(t *testing.T, n int64, redirect string) (result, error) {
		table, _ := newTable(t, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x %s; exit 0", n, redirect))
		return table.run(t.Context(), nil, nil, "-l")
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxLine", Max: 900, Within: func(t *testing.T, n int64) bool {
			_, err := longJob(t, int(n)).Line()
			return err == nil
		}},
		{Const: "maxTable", Max: 16 << 20, Within: func(t *testing.T, n int64) bool {
			_, err := printed(t, n, "")
			if err != nil && !strings.Contains(err.Error(), "-l: output exceeds") {
				t.Errorf("%d bytes: %v", n, err)
			}
			return err == nil
		}},
		{Const: "maxComplaint", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			_, err := printed(t, n, ">&2")
			if err != nil && !strings.Contains(err.Error(), "stderr exceeds") {
				t.Errorf("%d bytes: %v", n, err)
			}
			return err == nil
		}},
		{Const: "maxStderr", Max: 4 << 10, Within: func(t *testing.T, n int64) bool {
			got, err := printed(t, n, ">&2")
			return err == nil && len(got.stderr) == int(n)
		}},
		{Const: "keepBackups", Max: 20, Within: func(t *testing.T, n int64) bool {
			table := Table{Backup: t.TempDir()}
			for i := range n {
				path := filepath.Join(table.Backup, fmt.Sprintf("crontab-%d", i))
				put(t, path, "x")
				if err := os.Chtimes(path, time.Time{}, time.Unix(1e9+i, 0)); err != nil {
					t.Fatal(err)
				}
			}
			table.prune()
			_, err := os.Stat(filepath.Join(table.Backup, "crontab-0"))
			return err == nil
		}},

		{Const: "maxYears", Max: 12, Within: func(t *testing.T, n int64) bool {
			times, err := ParseTimes("0 8 29 2 */7") // February 29 on a Sunday: 2004, 2032
			if err != nil {
				t.Fatal(err)
			}
			return !times.Next(time.Date(2032-int(n), 6, 1, 0, 0, 0, 0, time.UTC), nil).IsZero()
		}},
		limittest.Duration("day", 24*time.Hour, 12*time.Hour, func(t *testing.T, d time.Duration) bool {
			if _, err := Expr(48 * time.Hour); err == nil {
				t.Error("two days are an interval")
			}
			_, err := Expr(d)
			return err == nil
		}),
	})
}
