package secret_test

import (
	"strings"
	"testing"

	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/limittest"
)

// TestLimits tries at its edge how short a value is that no text is searched for.
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
