package terminal

import (
	"cmp"
	"strings"
)

// problem is a missing or wrong flag in a script.
type problem struct {
	missing     bool   // false if the value is wrong
	text, alone string // the text in a list of several, and on its own
	hint        string // for a single problem; "" for the general hint
}

// Wrong reports a wrong value of a flag. At a terminal it returns a UsageError at once. Otherwise
// it records the error for Problems, so that a script gets all of them together, and returns nil.
func (a *Asker) Wrong(hint, format string, args ...any) error {
	err := Usagef(hint, format, args...)
	if a.CanAsk() {
		return err
	}
	text := strings.TrimSuffix(err.Error()+"; "+hint, "; ")
	a.problems = append(a.problems, problem{text: text, alone: err.Error(), hint: hint})
	return nil
}

// Missing records that one of the flags is missing, which would answer a question.
func (a *Asker) Missing(flags, question string) {
	a.problems = append(a.problems, problem{
		missing: true, text: flags + " is missing: " + question,
		alone: flags + " is missing, and without a terminal it cannot be asked for: " + question,
	})
}

// Problems returns a UsageError that lists all missing and wrong values, or nil.
func (a *Asker) Problems() error {
	const hint = "see " + Program + " init --help"
	if len(a.problems) == 0 {
		return nil
	}
	if len(a.problems) == 1 {
		return Usagef(cmp.Or(a.problems[0].hint, hint), "%s", a.problems[0].alone)
	}
	missing := 0
	var lines strings.Builder
	for _, p := range a.problems {
		if p.missing {
			missing++
		}
		lines.WriteString("\n  " + p.text)
	}
	wrong := len(a.problems) - missing
	switch {
	case wrong == 0:
		return Usagef(hint, "%s missing, and without a terminal nothing can be asked for:%s", Count(missing, "value"), lines.String())
	case missing == 0:
		return Usagef(hint, "%s wrong:%s", Count(wrong, "value"), lines.String())
	}
	return Usagef(hint, "%s missing and %d wrong, and without a terminal nothing can be asked for:%s", Count(missing, "value"), wrong, lines.String())
}
