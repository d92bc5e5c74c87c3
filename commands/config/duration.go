package config

import (
	"fmt"
	"time"

	"agentstateloop/commands/terminal"
)

// Duration is a duration above zero, written "90s", "30m" or "90d".
type Duration time.Duration

// UnmarshalText parses a duration with terminal.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := terminal.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q %w", text, err)
	}
	*d = Duration(parsed)
	return nil
}

// OptionalDuration is a Duration that may also be "", which is 0 and means off.
type OptionalDuration time.Duration

// UnmarshalText parses a duration or an empty text.
func (d *OptionalDuration) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = 0
		return nil
	}
	return (*Duration)(d).UnmarshalText(text)
}

// ZeroDuration is a Duration that may also be "0s", which means off.
type ZeroDuration time.Duration

// UnmarshalText parses a duration or "0s".
func (d *ZeroDuration) UnmarshalText(text []byte) error {
	if string(text) == "0s" {
		*d = 0
		return nil
	}
	return (*Duration)(d).UnmarshalText(text)
}

// MarshalText writes the duration in the format of agent.toml.
func (d ZeroDuration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }
