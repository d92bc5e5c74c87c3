package commands

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

// The types of flags that the library lacks.

// duration is the value of a flag for a duration. 0 means that the flag was not given and has no
// default.
type duration time.Duration

// Set parses a duration in the format of agent.toml.
func (d *duration) Set(text string) error {
	parsed, err := terminal.ParseDuration(text)
	if err == nil {
		*d = duration(parsed)
	}
	return err
}

// String returns the duration for --help.
func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return terminal.Short(time.Duration(*d))
}

// words is the value of a repeatable flag.
type words []string

// Set adds a word.
func (w *words) Set(word string) error {
	*w = append(*w, word)
	return nil
}

// String returns all words for --help.
func (w *words) String() string { return strings.Join(*w, " ") }

// optional is the value of a flag whose value may be omitted: --wait means --wait=without, and
// the next word is not its value.
type optional struct {
	without string
	choices []string
	value   string
}

// mayStandAlone reports whether a flag may be given without a value.
func mayStandAlone(f cli.Flag) bool {
	return hasValue[*optional](f)
}

// mayBeRepeated reports whether a flag may be given several times.
func mayBeRepeated(f cli.Flag) bool { return hasValue[*words](f) }

// hasValue reports whether a flag's value is of one of the kinds above.
func hasValue[T cli.Generic](f cli.Flag) bool {
	g, ok := f.(*cli.GenericFlag)
	if !ok {
		return false
	}
	_, ok = g.Value.(T)
	return ok
}

// Set accepts one of the choices.
func (o *optional) Set(value string) error {
	if !slices.Contains(o.choices, value) {
		return fmt.Errorf("is not one of: %s", strings.Join(o.choices, ", "))
	}
	o.value = value
	return nil
}

// String returns the value, or "".
func (o *optional) String() string { return o.value }

// The constructors below bind a flag to a variable of an options struct. The variable holds the
// default until the command line is parsed.

// switchFlag returns a flag without a value.
func switchFlag(to *bool, flag, usage string) cli.Flag {
	return &cli.BoolFlag{Name: flag, Usage: usage, DisableDefaultText: true, Destination: to}
}

// textFlag returns a flag with a text, "" by default.
func textFlag(to *string, flag, usage string) cli.Flag {
	return &cli.StringFlag{Name: flag, Usage: usage, Destination: to}
}

// durationFlag returns a flag for a duration. 0 means that it has no default.
func durationFlag(to *time.Duration, flag, usage string, otherwise time.Duration) cli.Flag {
	*to = otherwise
	return &cli.GenericFlag{Name: flag, Usage: usage, Value: (*duration)(to)}
}

// repeatedFlag returns a flag that may be repeated. Without it the variable is an empty list,
// [] in JSON.
func repeatedFlag(to *[]string, flag, usage string) cli.Flag {
	*to = []string{}
	return &cli.GenericFlag{Name: flag, Usage: usage, Value: (*words)(to)}
}

// reasonFlag returns the flag --reason, which several commands share.
func reasonFlag(to *string) cli.Flag {
	return textFlag(to, "reason", "`TEXT`: reason, for the history")
}

// variableOf returns the variable that a flag is bound to.
func variableOf(f cli.Flag) any {
	switch f := f.(type) {
	case *cli.BoolFlag:
		return f.Destination
	case *cli.StringFlag:
		return f.Destination
	case *cli.IntFlag:
		return f.Destination
	case *cli.TimestampFlag:
		return f.Destination
	case *cli.GenericFlag:
		switch value := f.Value.(type) {
		case *duration:
			return (*time.Duration)(value)
		case *words:
			return (*[]string)(value)
		}
		return f.Value
	}
	return nil
}
