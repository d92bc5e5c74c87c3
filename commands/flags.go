package commands

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

// The kinds of flags that the library does not have.

// duration is the value of a flag that takes a duration; 0 where the flag was
// not given and has no default.
type duration time.Duration

// Set reads a duration as agent.toml has it.
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

func durationFlag(flag, usage string, otherwise time.Duration) cli.Flag {
	return &cli.GenericFlag{Name: flag, Usage: usage, Value: (*duration)(&otherwise)}
}

// durationOf returns what a durationFlag was given, or its default.
func durationOf(c *cli.Context, flag string) time.Duration {
	return time.Duration(*c.Generic(flag).(*duration))
}

// words is the value of a flag that may be repeated.
type words []string

// Set adds one more.
func (w *words) Set(word string) error {
	*w = append(*w, word)
	return nil
}

// String returns all of them for --help.
func (w *words) String() string { return strings.Join(*w, " ") }

func repeatedFlag(flag, usage string) cli.Flag {
	return &cli.GenericFlag{Name: flag, Usage: usage, Value: &words{}}
}

// wordsOf returns what a repeatedFlag was given.
func wordsOf(c *cli.Context, flag string) []string { return *c.Generic(flag).(*words) }

// optional is the value of a flag that may stand alone: --wait means
// --wait=without, and the word after it is not its value.
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

// Set takes one of the choices.
func (o *optional) Set(value string) error {
	if !slices.Contains(o.choices, value) {
		return fmt.Errorf("is not one of: %s", strings.Join(o.choices, ", "))
	}
	o.value = value
	return nil
}

// String returns what was set, or "".
func (o *optional) String() string { return o.value }

// switchFlag returns a flag that takes no value.
func switchFlag(flag, usage string) cli.Flag {
	return &cli.BoolFlag{Name: flag, Usage: usage, DisableDefaultText: true}
}

// reasonFlag is the same for every command that has it.
func reasonFlag() cli.Flag {
	return &cli.StringFlag{Name: "reason", Usage: "why, as `TEXT` for the history"}
}
