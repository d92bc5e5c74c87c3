package cron

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// tag returns the end of the line of agent's interval, and alarmTag the end of its alarm line.
// We find the lines by these tags. A handle has no blanks, so one tag never ends in another.
func tag(agent string) string { return " # agentstateloop " + agent }

func alarmTag(agent string) string { return tag(agent) + " alarm" }

// Find returns the lines of agent's interval in table, without their newlines. These are the
// jobs that end in " # agentstateloop HANDLE", with exactly that handle.
//
//   - Blanks and a carriage return after the handle are ignored. An editor may
//     leave them, and we can repair the line.
//   - A job begins with a digit, "*" or "@", after optional blanks. A commented-out
//     line is therefore a comment of the user: it stays, and Set adds a new line.
//     The uninstall command removes the line permanently.
func Find(table []byte, agent string) []string { return find(table, tag(agent)) }

// FindAlarm returns the alarm lines of agent, as Find does. They end in " # agentstateloop
// HANDLE alarm".
func FindAlarm(table []byte, agent string) []string { return find(table, alarmTag(agent)) }

func find(table []byte, tag string) []string {
	var found []string
	for line := range bytes.Lines(table) {
		if isJob(line, tag) {
			found = append(found, string(bytes.TrimSuffix(line, []byte("\n"))))
		}
	}
	return found
}

// Set returns table with line and alarm, from [Job.Line] and [Job.AlarmLine], as the only lines
// of agent. Each replaces the first line of its kind. If the table has no such line, Set
// appends line, and puts alarm after line. An empty alarm removes the alarm lines. Every other
// line stays byte-identical and in its order, except that a last line without a newline gets
// one if ours follows it. Set does not modify table.
func Set(table []byte, agent, line, alarm string) []byte {
	edited := make([]byte, 0, len(table)+len(line)+len(alarm)+3)
	place := func(line *string) {
		if *line != "" {
			edited = append(withNewline(edited), *line+"\n"...)
			*line = "" // place it only once
		}
	}
	behind := len(FindAlarm(table, agent)) == 0 // the table has no alarm line to replace
	for old := range bytes.Lines(table) {
		switch {
		case isJob(old, alarmTag(agent)):
			place(&alarm)
		case isJob(old, tag(agent)):
			place(&line)
			if behind {
				place(&alarm)
			}
		default:
			edited = append(edited, old...)
		}
	}
	place(&line)
	place(&alarm)
	return edited
}

// Unset returns table without agent's lines. Every other byte stays. Unset does not modify
// table.
func Unset(table []byte, agent string) []byte {
	edited := make([]byte, 0, len(table))
	for line := range bytes.Lines(table) {
		if !isOurs(line, agent) {
			edited = append(edited, line...)
		}
	}
	return edited
}

// withNewline returns table with a newline at its end. An empty table stays empty.
func withNewline(table []byte) []byte {
	if len(table) == 0 || bytes.HasSuffix(table, []byte("\n")) {
		return table
	}
	return append(bytes.Clone(table), '\n')
}

// isOurs reports whether line is one of agent's lines.
func isOurs(line []byte, agent string) bool {
	return isJob(line, tag(agent)) || isJob(line, alarmTag(agent))
}

// isJob reports whether line is a job that ends in tag.
func isJob(line []byte, tag string) bool {
	if !bytes.HasSuffix(bytes.TrimRight(line, " \t\r\n"), []byte(tag)) {
		return false
	}
	line = bytes.TrimLeft(line, " \t")
	first := line[0]
	return first == '*' || first == '@' || '0' <= first && first <= '9'
}

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
		old, now := countLines(lines[:from])
		olds, nows := countLines(lines[from:to])
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

// countLines counts how many of lines are in the old table and in the new one.
func countLines(lines []diffLine) (old, now int) {
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

// Configs returns the paths of the config files in the agents' lines of table, in order and
// without duplicates. The files may no longer exist.
func Configs(table []byte) []string {
	var all []string
	for line := range bytes.Lines(table) {
		agent, found := agentOf(string(line))
		if !found || !isOurs(line, agent) {
			continue
		}
		_, rest, found := strings.Cut(string(line), " --config '")
		if path, ok := unquote(rest); found && ok && !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all
}

// agentOf returns the handle in the tag of a line.
func agentOf(line string) (agent string, found bool) {
	at := strings.LastIndex(line, tag(""))
	if at < 0 {
		return "", false
	}
	words := strings.Fields(line[at+len(tag("")):])
	if len(words) == 0 {
		return "", false
	}
	return words[0], true
}

// unquote undoes quote. text begins after the opening quote and may continue after the closing
// quote.
func unquote(text string) (word string, ok bool) {
	var b strings.Builder
	for {
		part, rest, closed := strings.Cut(text, "'")
		if !closed {
			return "", false
		}
		b.WriteString(part)
		switch {
		case strings.HasPrefix(rest, `\''`):
			b.WriteByte('\'')
		case strings.HasPrefix(rest, `\%'`):
			b.WriteByte('%')
		default:
			return b.String(), true
		}
		text = rest[len(`\''`):]
	}
}
