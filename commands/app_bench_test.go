package commands

import (
	"bytes"
	"testing"
)

// BenchmarkCommandLine measures what a command line costs before its command does
// anything: a poll, and the help of one, which needs all commands.
func BenchmarkCommandLine(b *testing.B) {
	for _, args := range [][]string{{"poll", "--quiet", "more"}, {"poll", "--help"}} {
		b.Run(args[len(args)-1], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var out bytes.Buffer
				p := testProgram()
				p.out.Stdout, p.out.Stderr = &out, &out
				p.command(b.Context(), args)
			}
		})
	}
}
