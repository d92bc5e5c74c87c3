package doctor

import (
	"encoding/json"
	"fmt"

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
)

// Finding is one result of a check. It is one line of doctor, with its hint.
type Finding struct {
	Check string // name of the check, such as "imap"
	Level Level
	Text  string // one line
	Hint  string // what to do next, one line; "": nothing
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

// Count returns the number of findings with a level.
func Count(found []Finding, level Level) int {
	n := 0
	for _, f := range found {
		if f.Level == level {
			n++
		}
	}
	return n
}

// Print prints the findings as a table for a person.
func Print(out *terminal.Output, found []Finding) {
	for _, f := range found {
		out.Printf("%-7s  %-11s  %s\n", f.Level, f.Check, f.Text)
		if f.Hint != "" {
			out.Printf("%-7s  %-11s  hint: %s\n", "", "", f.Hint)
		}
	}
}

// good returns a finding that all is well.
func good(check, format string, args ...any) Finding {
	return Finding{Check: check, Level: OK, Text: fmt.Sprintf(format, args...)}
}

// bad returns a finding of any other level, with a hint that may be empty.
func bad(level Level, check, hint, format string, args ...any) Finding {
	return Finding{Check: check, Level: level, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// failure returns a finding for err. A hint that err carries replaces the one
// given.
func failure(check, hint string, err error) Finding {
	if own := terminal.HintOf(err); own != "" {
		hint = own
	}
	return Finding{Check: check, Level: Error, Text: err.Error(), Hint: hint}
}

// skip returns a finding for a check that was not made.
func skip(check, why, hint string) Finding {
	return Finding{Check: check, Level: Skipped, Text: why, Hint: hint}
}
