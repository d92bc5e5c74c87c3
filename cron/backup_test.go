package cron

import (
	"fmt"
	"path/filepath"
	"testing"
)

func TestBackupFails(t *testing.T) {
	table, path := newTable(t, "")
	put(t, path, foreign)
	put(t, table.Backup, "a file where the folder should be")
	_, err := table.Install(t.Context(), job("goulard3120"))
	wantError(t, err, "nothing was written")
	wantFile(t, path, foreign)
}

func TestBackupsAreCapped(t *testing.T) {
	table, path := newTable(t, "")
	for i := range keepBackups + 3 {
		put(t, path, fmt.Sprintf("0 %d * * * x\n", i))
		install(t, table, job("goulard3120"))
	}
	backups, err := filepath.Glob(filepath.Join(table.Backup, "*"))
	if err != nil || len(backups) != keepBackups {
		t.Errorf("%d backups, %v; want %d", len(backups), err, keepBackups)
	}
	hidden, err := filepath.Glob(filepath.Join(table.Backup, ".*"))
	if err != nil || len(hidden) != 0 {
		t.Errorf("the hidden files %v, %v are left", hidden, err)
	}
}
