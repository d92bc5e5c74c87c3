package commands

import (
	"os"
	"strings"
	"time"

	"agentstateloop/internal/osfile"
)

// dailyMark remembers that cron's poll has reported something, so that it is reported once a day
// instead of each minute. It is a file in the folder of all agents, with the first time, the last
// report, and the subject. A mark about another subject does not count.
type dailyMark struct{ file, about string }

// maxMark limits a mark, in bytes.
const maxMark = 4 << 10

// isDayOld reports whether a day has passed since t.
func isDayOld(t, now time.Time) bool { return now.Sub(t) >= orphanPatience }

// read returns the first time and the last report.
func (m dailyMark) read(now time.Time) (first, last time.Time, known bool) {
	text, err := osfile.ReadFile(m.file, maxMark)
	if err != nil {
		return first, last, false
	}
	lines := strings.SplitN(string(text), "\n", 3)
	if len(lines) < 3 || strings.TrimSuffix(lines[2], "\n") != m.about {
		return first, last, false
	}
	first, firstErr := time.Parse(time.RFC3339, lines[0])
	last, lastErr := time.Parse(time.RFC3339, lines[1])
	known = firstErr == nil && lastErr == nil && !first.After(now) && !last.After(now)
	return first, last, known
}

// write writes the mark. It creates no folder.
func (m dailyMark) write(first, last time.Time) bool {
	text := first.UTC().Format(time.RFC3339) + "\n" + last.UTC().Format(time.RFC3339) + "\n" + m.about + "\n"
	return os.WriteFile(m.file, []byte(text), 0o600) == nil
}
