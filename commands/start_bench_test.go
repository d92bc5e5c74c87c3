package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// BenchmarkStartUp measures the start of the program, from fork to exit, with
// nothing to do, next to an empty Go program: the time, the CPU and the page faults.
func BenchmarkStartUp(b *testing.B) {
	dir := b.TempDir()
	for name, program := range map[string]string{"version": buildProgram(b, dir), "empty": emptyProgram(b, dir)} {
		b.Run(name, func(b *testing.B) {
			var cpu time.Duration
			var faults int64
			n := 0
			for b.Loop() {
				cmd := exec.Command(program, "--version")
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				n++
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
					faults += used.Minflt
				}
			}
			b.ReportMetric(float64(cpu.Microseconds())/1000/float64(n), "cpu-ms/op")
			b.ReportMetric(float64(faults)/float64(n), "faults/op")
		})
	}
}

// emptyProgram builds a Go program that does nothing.
func emptyProgram(tb testing.TB, dir string) string {
	tb.Helper()
	source := filepath.Join(dir, "empty.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	program := filepath.Join(dir, "empty")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return program
}
