package timer

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/limittest"
)

func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "maxOutput", Max: 16 << 10, Within: func(t *testing.T, n int64) bool {
			program := filepath.Join(t.TempDir(), "systemctl")
			if err := testkit.WriteProgram(program, fmt.Sprintf("#!/bin/sh\nhead -c %d /dev/zero >&2\n", n)); err != nil {
				t.Fatal(err)
			}
			_, err := Timer{}.run(t.Context(), program)
			if err != nil && !errors.Is(err, capture.ErrTooMuch) {
				t.Error(err)
			}
			return err == nil
		}},
	})
}
