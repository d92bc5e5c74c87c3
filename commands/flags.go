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

func durationFlag(flag, usage string, otherwise time.Duration) cli.Flag {
	return &cli.GenericFlag{Name: flag, Usage: usage, Value: (*duration)(&otherwise)}
}

// durationOf returns the value of a durationFlag, or its default.
func durationOf(c *cli.Context, flag string) time.Duration {
	return time.Duration(*c.Generic(flag).(*duration))
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

func repeatedFlag(flag, usage string) cli.Flag {
	return &cli.GenericFlag{Name: flag, Usage: usage, Value: &words{}}
}

// wordsOf returns the values of a repeatedFlag.
func wordsOf(c *cli.Context, flag string) []string { return *c.Generic(flag).(*words) }

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

// switchFlag returns a flag without a value.
func switchFlag(flag, usage string) cli.Flag {
	return &cli.BoolFlag{Name: flag, Usage: usage, DisableDefaultText: true}
}

// reasonFlag returns the flag --reason, which several commands share.
func reasonFlag() cli.Flag {
	return &cli.StringFlag{Name: "reason", Usage: "why, as `TEXT` for the history"}
}
