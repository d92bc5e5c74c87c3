package statetest

import (
	"encoding/json"
	"strings"
	"testing"

	"agentstateloop/state"
)

// SameState fails the test unless two states have the same JSON.
func SameState(t *testing.T, got, want state.State) {
	t.Helper()
	if g, w := JSON(t, got), JSON(t, want); g != w {
		t.Errorf("state is\n%s\nwant\n%s", g, w)
	}
}

// JSON returns v in the form of state.json and the history.
func JSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// BadStates are possible contents of a broken state file.
var BadStates = map[string]string{
	"empty":           "",
	"truncated":       `{"version":1,"serial":7,"agent":"goul`,
	"zeros":           strings.Repeat("\x00", 512),
	"binary":          "\x7fELF\x02\x01\x01",
	"another type":    `[1,2,3]`,
	"null":            `null`,
	"empty object":    `{}`,
	"no agent":        `{"version":1,"phase":"IDLE","turn":{"status":"idle"}}`,
	"unknown phase":   `{"version":1,"agent":"goulard3120","phase":"NAP","turn":{"status":"idle"}}`,
	"unknown turn":    `{"version":1,"agent":"goulard3120","phase":"IDLE","turn":{"status":"napping"}}`,
	"no turn":         `{"version":1,"agent":"goulard3120","phase":"IDLE"}`,
	"a field's type":  `{"version":1,"agent":"goulard3120","phase":"IDLE","turn":{"status":"idle"},"inbox":"none"}`,
	"a wrong time":    `{"version":1,"agent":"goulard3120","phase":"IDLE","turn":{"status":"idle"},"phase_since":"yesterday"}`,
	"two states":      `{"version":1,"agent":"goulard3120","phase":"IDLE","turn":{"status":"idle"}}{"version":1}`,
	"version in text": `{"version":"1"}`,
}
