package plain_test

import (
	"strings"
	"testing"

	"agentstateloop/internal/plain"
	"agentstateloop/internal/testkit/limittest"
)

// TestLimits tries the length of a file name.
func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "maxFileName", Max: 255, Within: func(_ *testing.T, n int64) bool {
			_, ok := plain.FileName(strings.Repeat("x", int(n)))
			return ok
		}},
		{Const: "maxFileName", Max: 255, Within: func(_ *testing.T, n int64) bool { // with its number
			var names plain.FileNames
			name := strings.Repeat("x", int(n)-len("-2"))
			names.Add(name, "attachment-1")
			return names.Add(name, "attachment-2") == name+"-2"
		}},
	})
}
