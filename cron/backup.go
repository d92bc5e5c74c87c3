package cron

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// keepBackups is how many backups stay, the latest.
const keepBackups = 20

// anyAgentLine is the line of any agent.
var anyAgentLine = regexp.MustCompile(`(?m)^[ \t]*[0-9*@].* # agentstateloop [a-z0-9-]+[ \t\r]*$\n?`)

// backUp saves table to a 0600 file in the backup folder, fsynced, and returns
// its path. An empty table needs no backup, and has none.
//
// The file is named by a hash of the lines that are no agent's. An agent's own
// comings and goings therefore write the same file over and over, and a
// backup of the user's own lines stays until they have changed 20 times: a
// table that a broken crontab mangled does not push out the last good one.
func (t Table) backUp(table []byte) (string, error) {
	if err := os.MkdirAll(t.Backup, 0o700); err != nil {
		return "", err
	}
	if len(table) == 0 {
		return "", nil
	}
	sum := sha256.Sum256(anyAgentLine.ReplaceAll(table, nil))
	path := filepath.Join(t.Backup, fmt.Sprintf("crontab-%x", sum[:6]))
	if err := writeFile(path, table); err != nil {
		return "", err
	}
	t.prune()
	return path, nil
}

// writeFile puts data at path in one step: whoever looks finds the old file or
// the new one, whole.
func writeFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".backup-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // gone already when all went well
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
	return os.Rename(file.Name(), path)
}

// prune removes the oldest backups but for keepBackups. One that cannot be
// removed stays: that is no reason to leave the crontab unwritten.
func (t Table) prune() {
	entries, err := os.ReadDir(t.Backup)
	if err != nil {
		return
	}
	var backups []fs.FileInfo
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && strings.HasPrefix(info.Name(), "crontab-") {
			backups = append(backups, info)
		}
	}
	slices.SortFunc(backups, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, old := range backups[min(keepBackups, len(backups)):] {
		_ = os.Remove(filepath.Join(t.Backup, old.Name()))
	}
}
