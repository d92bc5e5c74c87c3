package cron

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestFindsLostLines compares tables that lost lines with the backup of a write.
func TestFindsLostLines(t *testing.T) {
	const mine = "# mine\nA=b\n\n1 2 * * * one\n3 4 * * * two\n"
	for name, tt := range map[string]struct {
		table string
		lost  []int
		cut   bool
	}{
		"as it was":            {mine + ours + "\n", nil, true},
		"without our line":     {mine, nil, true},
		"the last line lost":   {"# mine\nA=b\n\n1 2 * * * one\n" + ours + "\n", []int{5}, true},
		"cut within a line":    {"# mine\nA=b\n\n1 2 * * * o", []int{4, 5}, true},
		"repaired after a cut": {"# mine\nA=b\n\n1 2 * * * o\n" + ours + "\n", []int{4, 5}, true},
		"empty":                {"", []int{2, 4, 5}, true},
		"a line in the middle": {"# mine\n1 2 * * * one\n3 4 * * * two\n", []int{2}, false},
		"a line more":          {mine + "5 6 * * * three\n", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			table, path := newTable(t, "")
			put(t, path, mine)
			change := install(t, table, job("goulard3120"))
			if strings.HasPrefix(name, "repaired") { // the next poll backed up the truncated table
				put(t, path, tt.table[:len(tt.table)-len(ours)-1])
				install(t, table, job("goulard3120"))
			}
			loss, damaged := table.Lost([]byte(tt.table))
			if !slices.Equal(loss.Lines, tt.lost) || len(damaged) > 0 {
				t.Errorf("lost lines %v, want %v; damaged %v", loss.Lines, tt.lost, damaged)
			}
			if len(tt.lost) > 0 && (loss.Cut != tt.cut || loss.Backup != change.Backup) {
				t.Errorf("%+v; want cut %v, of %s", loss, tt.cut, change.Backup)
			}
			if err := os.Truncate(change.Backup, 20); err != nil {
				t.Fatal(err)
			}
			if loss, damaged = table.Lost([]byte(tt.table)); !slices.Equal(damaged, []string{change.Backup}) || loss.Backup == change.Backup {
				t.Errorf("a backup that was cut: damaged %v, loss %+v", damaged, loss)
			}
		})
	}
}

func TestCutLine(t *testing.T) {
	for table, want := range map[string]int{
		"":                                  0,
		ours + "\n":                         0,
		"a b\n" + ours[:len(ours)-3]:        2,
		"*/30 * * * *\n":                    0,
		"# x\n\n" + ours[:40] + "\n" + ours: 3,
	} {
		if got := CutLine([]byte(table), ours); got != want {
			t.Errorf("%q: line %d, want %d", table, got, want)
		}
	}
}
