package setup

import (
	"errors"
	"net"
	netmail "net/mail"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/fleet"
	"agentstateloop/state"
)

// Checks of an answer, made at once so that the user can correct it. Each error continues a
// sentence that begins with the answer.

func isAddress(text string) error {
	if a, err := netmail.ParseAddress(text); err != nil || a.Address != text {
		return errors.New("is not an email address")
	}
	return nil
}

// isMailbox accepts an address with or without a display name.
func isMailbox(text string) error {
	if _, err := netmail.ParseAddress(text); err != nil {
		return errors.New("is not an email address")
	}
	return nil
}

func isHandle(text string) error {
	if !state.ValidHandle(text) {
		return errors.New("use a-z, 0-9 and -, at most 32 characters, without the @")
	}
	return nil
}

// isPeer accepts a handle or HANDLE=KEY.
func isPeer(text string) error {
	handle, key, keyed := strings.Cut(text, "=")
	if keyed && !fleet.ValidPublicKey(key) {
		return errors.New("expected HANDLE=KEY, where KEY is U and 55 characters: run `" + terminal.Program + " fleet key` on that agent's machine to print its key")
	}
	return isHandle(handle)
}

func isHost(text string) error {
	host, port, err := net.SplitHostPort(withPort(text, "1"))
	if err != nil || host == "" || port == "" || strings.ContainsAny(text, " /@") {
		return errors.New("is not HOST or HOST:PORT")
	}
	return nil
}

func isText(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("is empty")
	}
	return nil
}

// isOneOf returns a check that accepts a few words.
func isOneOf(choices ...string) func(string) error {
	return func(text string) error {
		if !slices.Contains(choices, text) {
			return errors.New("is not one of: " + strings.Join(choices, ", "))
		}
		return nil
	}
}
