package commands

import (
	"errors"
	"net"
	netmail "net/mail"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/state"
)

// What init checks of an answer at once, so that a person can correct it.

func isAddress(text string) error {
	if a, err := netmail.ParseAddress(text); err != nil || a.Address != text {
		return errors.New("is no mail address")
	}
	return nil
}

func isHandle(text string) error {
	if !state.ValidHandle(text) {
		return errors.New("use a-z, 0-9 and -, at most 32, without the @")
	}
	return nil
}

func isPreset(text string) error {
	if !slices.Contains(presetNames(), text) || text == presetNone {
		return errors.New("is none of: " + strings.Join(presetNames()[:4], ", "))
	}
	return nil
}

func isHost(text string) error {
	host, port, err := net.SplitHostPort(withPort(text, "1"))
	if err != nil || host == "" || port == "" || strings.ContainsAny(text, " /@") {
		return errors.New("is no HOST or HOST:PORT")
	}
	return nil
}

func isRunner(text string) error {
	if !slices.Contains([]string{"exec", "claude", "codex", "gemini", "api", "none"}, text) {
		return errors.New("is none of: exec, claude, codex, gemini, api, none")
	}
	return nil
}

func isProvider(text string) error {
	if text != config.Anthropic && text != config.OpenAI {
		return errors.New("is none of: anthropic, openai")
	}
	return nil
}

func isText(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("is empty")
	}
	return nil
}
