package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/limittest"
)

func TestLimits(t *testing.T) {
	printed := func(columns int64, print func(*Output) error) string {
		var out bytes.Buffer
		if err := print(&Output{Stdout: &out, Columns: func() int { return int(columns) }}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxDays", Max: 36500, Within: func(t *testing.T, n int64) bool {
			_, err := ParseDuration(fmt.Sprintf("%dd", n))
			return err == nil
		}},
		limittest.Duration("day", 24*time.Hour-time.Second, time.Second, func(t *testing.T, d time.Duration) bool {
			return !strings.Contains(Short(d), "d") // hours are the largest unit
		}),
		{Const: "pageColumns", Max: 79, Within: func(t *testing.T, n int64) bool {
			const page = "one line\nand another\n"
			return printed(n, func(o *Output) error { // filled again
				p := o.Page()
				p.Write([]byte(page))
				return p.Flush()
			}) != page
		}},
		{Const: "leastLastWide", Max: 23, Within: func(t *testing.T, n int64) bool {
			text := printed(40+n, func(o *Output) error { // with a line of its own for the last column
				return o.Grid([]Column{{}, {}}, [][]string{{strings.Repeat("x", 38), strings.Repeat("word ", 10)}})
			})
			return strings.HasPrefix(text, strings.Repeat("x", 38)+"\n")
		}},
	})
}
