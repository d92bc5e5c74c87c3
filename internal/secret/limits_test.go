package secret_test

import (
	"strings"
	"testing"

	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/limittest"
)

// TestLimits tries the length of a value that is too short to be redacted.
func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "minSecret", Max: 7, Within: func(_ *testing.T, n int64) bool {
			var known secret.Known
			value := strings.Repeat("x", int(n))
			known.Learn("imap", value)
			return known.Redact("it is "+value) == "it is "+value
		}},
	})
}
