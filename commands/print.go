package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// printable makes foreign text safe for a terminal: what could move the
// cursor, change colours or reverse the direction of writing is shown as a
// replacement character. Newlines and tabs stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || r == '\u200d' {
			return r
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return unicode.ReplacementChar
	}, s)
}

// oneLine is printable on a single line.
func oneLine(s string) string { return strings.Join(strings.Fields(printable(s)), " ") }

// printf prints data for a person.
func (p *program) printf(format string, args ...any) {
	fmt.Fprintf(p.stdout, format, args...)
}

// warn tells of trouble that is no reason to fail.
func (p *program) warn(format string, args ...any) {
	fmt.Fprintf(p.stderr, "%s: warning: %s\n", name, printable(fmt.Sprintf(format, args...)))
}

// printJSON prints one value, indented.
func (p *program) printJSON(v any) error { return writeJSON(p.stdout, v, "  ") }

func writeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// clock shows a time to a person: local, with the date if it is not today.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// distance shows how far off a time is: "in 40s", "3m ago", "now".
func distance(t, now time.Time) string {
	switch d := t.Sub(now).Round(time.Second); {
	case d == 0:
		return "now"
	case d > 0:
		return "in " + short(d)
	default:
		return short(-d) + " ago"
	}
}

// short shows a length of time by its two largest units.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	for _, u := range []struct {
		large, small         time.Duration
		largeName, smallName string
	}{{day, time.Hour, "d", "h"}, {time.Hour, time.Minute, "h", "m"}, {time.Minute, time.Second, "m", "s"}} {
		if d < u.large {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.large, u.largeName)
		if rest := d % u.large / u.small; rest > 0 {
			text += fmt.Sprintf("%d%s", rest, u.smallName)
		}
		return text
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// count puts a number before its noun: "1 mail", "2 mails".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
