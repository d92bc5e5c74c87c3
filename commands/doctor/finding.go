package doctor

import (
	"encoding/json"
	"fmt"

	"agentstateloop/commands/terminal"
)

// Level is how bad a Finding is.
type Level string

// The levels, from good to bad. Only Error makes doctor fail.
const (
	OK      Level = "ok"
	Info    Level = "info"
	Skipped Level = "skipped"
	Warn    Level = "warn"
	Error   Level = "error"
)

// Finding is one line of doctor.
type Finding struct {
	Check string
	Level Level
	Text  string
	Hint  string // what to do; "" if there is nothing to do
}

// MarshalJSON writes a hint that is missing as null.
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

// Count returns how many findings have a level.
func Count(found []Finding, level Level) int {
	n := 0
	for _, f := range found {
		if f.Level == level {
			n++
		}
	}
	return n
}

// Print prints the findings for a person.
func Print(out *terminal.Output, found []Finding) {
	for _, f := range found {
		out.Printf("%-7s  %-11s  %s\n", f.Level, f.Check, f.Text)
		if f.Hint != "" {
			out.Printf("%-7s  %-11s  hint: %s\n", "", "", f.Hint)
		}
	}
}

func good(check, format string, args ...any) Finding {
	return Finding{Check: check, Level: OK, Text: fmt.Sprintf(format, args...)}
}

func bad(level Level, check, hint, format string, args ...any) Finding {
	return Finding{Check: check, Level: level, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// failure makes a finding of an error. A hint that the error carries counts more
// than the one given.
func failure(check, hint string, err error) Finding {
	if own := terminal.HintOf(err); own != "" {
		hint = own
	}
	return Finding{Check: check, Level: Error, Text: err.Error(), Hint: hint}
}

func skip(check, why, hint string) Finding {
	return Finding{Check: check, Level: Skipped, Text: why, Hint: hint}
}
