package members

import (
	"testing"

	"agentstateloop/internal/testkit/limittest"
)

// TestLimits tries the number of rows that are removed from a list at one place.
func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "maxGone", Max: 8, Within: func(_ *testing.T, n int64) bool {
			rows := make([]int, n+1)
			rows[n] = 1
			row := 1
			return (&rowBytes[int]{rows: rows}).removedRows(0, &row) == int(n)
		}},
	})
}
