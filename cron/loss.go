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

	"agentstateloop/internal/osfile"
)

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
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
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
