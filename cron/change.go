package cron

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Change describes what an edit of the table did, or would do.
type Change struct {
	Before, After []byte // the whole table
	Wrote         bool   // the table was written, and After was read back
	Line          string // the agent's line; "" if it was removed
	Backup        string // path of the backup; "" without a backup
}

// contextLines is the number of unchanged lines that Diff shows around a change.
const contextLines = 2

// Diff returns the change as a unified diff for people, or "" if both tables are equal. It
// shows foreign lines near ours unmodified.
func (c Change) Diff() string {
	if bytes.Equal(c.Before, c.After) {
		return ""
	}
	lines := diffLines(c.Before, c.After)
	var out strings.Builder
	out.WriteString("--- crontab, installed\n+++ crontab, wanted\n")
	for start := 0; start < len(lines); {
		end := hunkEnd(lines, start)
		if end == start {
			start++
			continue
		}
		from := max(start-contextLines, 0)
		to := min(end+contextLines, len(lines))
		old, now := linesBefore(lines[:from])
		olds, nows := linesBefore(lines[from:to])
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(old, olds), span(now, nows))
		for _, line := range lines[from:to] {
			out.WriteByte(line.sign)
			out.Write(line.text)
			if !bytes.HasSuffix(line.text, []byte("\n")) {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
		start = to
	}
	return out.String()
}

type diffLine struct {
	sign byte // ' ', '-' or '+'
	text []byte
}

// diffLines pairs the lines that both tables have, in order. The diff is correct for any two
// tables, but it is the shortest one only if they differ in our lines alone.
func diffLines(before, after []byte) []diffLine {
	olds, news := slices.Collect(bytes.Lines(before)), slices.Collect(bytes.Lines(after))
	ahead := make(map[string]int) // how often a line still follows in the old table
	for _, line := range olds {
		ahead[string(line)]++
	}
	var lines, added []diffLine
	for len(olds) > 0 || len(news) > 0 {
		switch {
		case len(olds) > 0 && len(news) > 0 && bytes.Equal(olds[0], news[0]):
			lines = append(append(lines, added...), diffLine{' ', olds[0]})
			added = nil
			ahead[string(olds[0])]--
			olds, news = olds[1:], news[1:]
		case len(news) > 0 && ahead[string(news[0])] == 0:
			added = append(added, diffLine{'+', news[0]})
			news = news[1:]
		case len(olds) > 0:
			lines = append(lines, diffLine{'-', olds[0]})
			ahead[string(olds[0])]--
			olds = olds[1:]
		}
	}
	return append(lines, added...)
}

// hunkEnd returns the end of the changes that begin at start. Changes separated
// by only a few unchanged lines belong to one hunk.
func hunkEnd(lines []diffLine, start int) int {
	if lines[start].sign == ' ' {
		return start
	}
	end := start + 1
	for i := end; i < len(lines) && i <= end+2*contextLines; i++ {
		if lines[i].sign != ' ' {
			end = i + 1
		}
	}
	return end
}

// linesBefore counts how many of lines are in the old table and in the new one.
func linesBefore(lines []diffLine) (old, now int) {
	for _, line := range lines {
		if line.sign != '+' {
			old++
		}
		if line.sign != '-' {
			now++
		}
	}
	return old, now
}

// span returns one side of a hunk's header: the number of its first line and the number of
// lines. For a side without lines, it is the number of the line before.
func span(skipped, lines int) string {
	if lines > 0 {
		skipped++
	}
	return fmt.Sprintf("%d,%d", skipped, lines)
}
