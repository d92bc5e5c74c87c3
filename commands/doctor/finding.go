package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
)

// Level states how serious a Finding is.
type Level string

// The levels, from good to bad. Only Error makes doctor fail.
const (
	OK      Level = "ok"
	Info    Level = "info"
	Skipped Level = "skipped"
	Warn    Level = "warn"
	Error   Level = "error"
	Fixed   Level = "fixed" // only from Fix: the problem is repaired
)

// Finding is one result of a check. It is one line of doctor, with its hint.
type Finding struct {
	Check string // name of the check, such as "imap"
	Level Level
	Text  string // one line
	Hint  string // what to do next, one line; may be empty

	fix *repair // nil if the problem does not have exactly one right answer, or the answer is not ours to give
}

// fixedBy returns the finding with its repair, which may be nil.
func (f Finding) fixedBy(r *repair) Finding {
	f.fix = r
	return f
}

// MarshalJSON writes an empty hint as null.
func (f Finding) MarshalJSON() ([]byte, error) {
	out := struct {
		Check string  `json:"check"`
		Level Level   `json:"level"`
		Text  string  `json:"text"`
		Hint  *string `json:"hint"`
	}{Check: f.Check, Level: f.Level, Text: f.Text}
	if f.Hint != "" {
		out.Hint = &f.Hint
	}
	return json.Marshal(out)
}

// severity lists the levels from good to bad.
var severity = []Level{Fixed, OK, Skipped, Info, Warn, Error}

// worst returns the worst level of each check.
func worst(found []Finding) map[string]Level {
	levels := map[string]Level{}
	for _, f := range found {
		if known, ok := levels[f.Check]; !ok || slices.Index(severity, f.Level) > slices.Index(severity, known) {
			levels[f.Check] = f.Level
		}
	}
	return levels
}

// Count returns the number of checks whose worst finding has a level.
func Count(found []Finding, level Level) int {
	n := 0
	for _, of := range worst(found) {
		if of == level {
			n++
		}
	}
	return n
}

// Levels for Print. Trouble shows problems, Remarkable also useful information, and Everything each
// finding.
var (
	Trouble    = []Level{Fixed, Warn, Error}
	Remarkable = []Level{Fixed, Info, Warn, Error}
	Everything = []Level{Fixed, OK, Info, Skipped, Warn, Error}
)

// Print prints a table of the findings with the shown levels, and of those that Fix can repair. It
// names the other checks in a line or two, each by its worst finding.
func Print(out *terminal.Output, found []Finding, shown []Level) error {
	var rows [][]string
	listed, shownChecks := worst(found), map[string]bool{}
	for _, f := range found {
		if !slices.Contains(shown, f.Level) && f.fix == nil {
			continue
		}
		shownChecks[f.Check] = true
		rows = append(rows, []string{fmt.Sprintf("%-7s", f.Level), fmt.Sprintf("%-11s", f.Check), f.Text})
		if f.Hint != "" {
			rows = append(rows, []string{"", "", "hint: " + f.Hint})
		}
	}
	if err := out.Grid([]terminal.Column{{}, {}, {}}, rows); err != nil {
		return err
	}
	hidden := func(level Level) (names []string) {
		for _, f := range found {
			if listed[f.Check] == level && !shownChecks[f.Check] && !slices.Contains(names, f.Check) {
				names = append(names, f.Check)
			}
		}
		return names
	}
	if names := hidden(OK); len(names) > 0 {
		out.Printf("%s ok: %s\n", checksAre(len(names)), strings.Join(names, ", "))
	}
	rest := ""
	if names := hidden(Info); len(names) > 0 {
		rest += fmt.Sprintf("%s worth a look: %s; ", checksAre(len(names)), strings.Join(names, ", "))
	}
	if names := hidden(Skipped); len(names) > 0 {
		rest += fmt.Sprintf("%s skipped: %s; ", checksAre(len(names)), strings.Join(names, ", "))
	}
	if rest != "" {
		out.Printf("%s`%s doctor --all` shows the details\n", rest, terminal.Program)
	}
	return nil
}

// checksAre returns "1 check is" or "2 checks are".
func checksAre(n int) string {
	if n == 1 {
		return "1 check is"
	}
	return terminal.Count(n, "check") + " are"
}

// good returns a finding that all is well.
func good(check, format string, args ...any) Finding {
	return Finding{Check: check, Level: OK, Text: fmt.Sprintf(format, args...)}
}

// bad returns a finding of any other level, with a hint that may be empty.
func bad(level Level, check, hint, format string, args ...any) Finding {
	return Finding{Check: check, Level: level, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// failure returns a finding for err. A hint in err replaces the given one.
func failure(check, hint string, err error) Finding {
	if own := terminal.HintOf(err); own != "" {
		hint = own
	}
	return Finding{Check: check, Level: Error, Text: err.Error(), Hint: hint}
}

// skip returns a finding for a check that did not run.
func skip(check, why, hint string) Finding {
	return Finding{Check: check, Level: Skipped, Text: why, Hint: hint}
}
