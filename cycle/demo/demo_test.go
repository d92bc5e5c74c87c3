package demo

import (
	"bytes"
	"os"
	"testing"

	"agentstateloop/turn"
)

// TestMain makes the test binary act as the program that a turn starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__attempt" {
		turn.Main(os.Args[2:])
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// The demo plays to its end. Run fails at the first deviation.
func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Run(t.Context(), &out, self(t), turn.Exec); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
}
