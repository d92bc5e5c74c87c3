package commands

import (
	"os/exec"
	"testing"
)

// BenchmarkStartUp measures the start of the program, from fork to exit, with
// nothing to do.
func BenchmarkStartUp(b *testing.B) {
	program := buildProgram(b, b.TempDir())
	for b.Loop() {
		if err := exec.Command(program, "--version").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
