package config

import (
	"fmt"
	"time"

	"agentstateloop/commands/terminal"
)

// Duration is a value such as "90s", "30m" or "90d", more than zero.
type Duration time.Duration

// UnmarshalText reads a duration as terminal.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := terminal.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q %w", text, err)
	}
	*d = Duration(parsed)
	return nil
}

// OptionalDuration is a Duration that may be "", which is 0: off.
type OptionalDuration time.Duration

// UnmarshalText reads a duration, or nothing.
func (d *OptionalDuration) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = 0
		return nil
	}
	return (*Duration)(d).UnmarshalText(text)
}
