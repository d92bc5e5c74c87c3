package cron

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/order"
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

// Loss describes the lines of a backup that the table lacks, except the lines of agents.
type Loss struct {
	Backup string // path of the backup
	Lines  []int  // the numbers of the lost lines in it, from 1
	Cut    bool   // the table is only the beginning of the backup: somebody has cut it short
}

// Lost compares the table with its backups, newest first. It returns the loss against the
// newest backup of which the table is only the beginning, or else against the newest undamaged
// backup. damaged are the paths of damaged backups. Lost reads files and runs no program.
func (t Table) Lost(table []byte) (loss Loss, damaged []string) {
	now := linesOfOthers(table)
	for i, path := range t.backups() {
		backup, err := osfile.ReadFile(path, maxTable)
		if err != nil || filepath.Base(path) != backupName(backup) {
			damaged = append(damaged, path)
			continue
		}
		found := Loss{Backup: path, Lines: lostLines(backup, now), Cut: isBeginning(now, linesOfOthers(backup))}
		if len(found.Lines) > 0 && (found.Cut || i == len(damaged)) {
			loss = found
		}
		if loss.Cut {
			break
		}
	}
	return loss, damaged
}

// CutLine returns the number of a line of the table that is only the beginning of an agent's
// line, or 0. Cron would run the truncated command.
func CutLine(table []byte, line string) (number int) {
	for text := range bytes.Lines(table) {
		number++
		left := strings.TrimRight(string(text), " \t\r\n")
		if len(strings.Fields(left)) > 5 && left != line && strings.HasPrefix(line, left) {
			return number
		}
	}
	return 0
}

// backupName returns the name of the backup of a table.
func backupName(table []byte) string {
	sum := sha256.Sum256(anyAgentLine.Get().ReplaceAll(table, nil))
	return fmt.Sprintf("crontab-%x", sum[:6])
}

// backups returns the paths of the backups, newest first.
func (t Table) backups() []string {
	entries, err := os.ReadDir(t.Backup)
	if err != nil {
		return nil
	}
	var infos []fs.FileInfo
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && strings.HasPrefix(info.Name(), "crontab-") {
			infos = append(infos, info)
		}
	}
	order.Sort(infos, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var paths []string
	for _, info := range infos {
		paths = append(paths, filepath.Join(t.Backup, info.Name()))
	}
	return paths
}

// linesOfOthers returns the lines that are not an agent's. It drops empty lines, and comments,
// which Debian's crontab does not always show.
func linesOfOthers(table []byte) []string {
	var lines []string
	for line := range bytes.Lines(anyAgentLine.Get().ReplaceAll(table, nil)) {
		if text := strings.TrimRight(string(line), "\r\n"); text != "" && text[0] != '#' {
			lines = append(lines, text)
		}
	}
	return lines
}

// lostLines returns the numbers of the lines of a backup that the table lacks. Lines of agents,
// comments and empty lines do not count.
func lostLines(backup []byte, now []string) (lost []int) {
	number := 0
	for line := range bytes.Lines(backup) {
		number++
		text := strings.TrimRight(string(line), "\r\n")
		if text != "" && text[0] != '#' && !anyAgentLine.Get().Match(line) && !slices.Contains(now, text) {
			lost = append(lost, number)
		}
	}
	return lost
}

// isBeginning reports whether lines are the beginning of the lines of a backup. The last line
// may be cut off.
func isBeginning(lines, backup []string) bool {
	if len(lines) > len(backup) {
		return false
	}
	for i, line := range lines {
		if line != backup[i] && !(i == len(lines)-1 && strings.HasPrefix(backup[i], line)) {
			return false
		}
	}
	return true
}
