package cron

import (
	"os"
	"path/filepath"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/osfile"
)

// keepBackups limits the number of backups.
const keepBackups = 20

// anyAgentLine matches the line of any agent.
var anyAgentLine = lazy.NewRegexp(`(?m)^[ \t]*[0-9*@].* # agentstateloop [a-z0-9-]+( alarm)?[ \t\r]*$\n?`)

// backUp saves table to a file with mode 0600 in the backup folder, durably, and returns its
// path. It does not save an empty table, and returns "" for it.
//
// The name of the file is a hash of the lines that do not belong to an agent. So changes of an
// agent's line overwrite the same file, and a backup stays until the user's own lines have
// changed 20 times. A table that a broken crontab mangled does not replace the last good one.
func (t Table) backUp(table []byte) (string, error) {
	if err := osfile.MkdirAll(t.Backup); err != nil {
		return "", err
	}
	if err := osfile.Folder(t.Backup); err != nil {
		return "", err
	}
	if len(table) == 0 {
		return "", nil
	}
	path := filepath.Join(t.Backup, backupName(table))
	if err := writeFile(path, table); err != nil {
		return "", err
	}
	t.prune()
	return path, nil
}

// writeFile writes data to path atomically and durably: a reader finds the whole old
// file or the whole new one, even after a power loss.
func writeFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".backup-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // already gone after the rename
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return osfile.SyncDir(filepath.Dir(path))
}

// prune removes all but the newest keepBackups backups. A backup that cannot be removed does
// not stop us from writing the crontab.
func (t Table) prune() {
	backups := t.backups()
	for _, old := range backups[min(keepBackups, len(backups)):] {
		_ = os.Remove(old)
	}
}
