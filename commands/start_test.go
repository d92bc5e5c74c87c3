package commands

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// maxInitialized is how many bytes the packages of the program may allocate before main.
// They need 646 KiB, so a new library is noticed.
const maxInitialized = 700 << 10

// TestPackageInitAllocations limits the allocations of all packages when the program starts. With -v
// it prints the packages with the most bytes, and their times (docs/performance.md, "The binary").
func TestPackageInitAllocations(t *testing.T) {
	cmd := exec.Command(buildProgram(t, t.TempDir()), "--version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	type load struct {
		bytes int
		line  string
	}
	var loads []load
	total := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes, \d+ allocs$`).FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		total += n
		loads = append(loads, load{n, string(m[0])})
	}
	if len(loads) < 50 {
		t.Fatalf("only %d packages are initialized:\n%s", len(loads), out)
	}
	slices.SortFunc(loads, func(a, b load) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, l := range loads[:20] {
		t.Log(l.line)
	}
	t.Logf("%d bytes in all", total)
	if total > maxInitialized {
		t.Errorf("the packages allocate %d bytes at each start, and may have %d", total, maxInitialized)
	}
}

// BenchmarkStartUp measures the start of the program, from fork to exit, for a command without
// work, and that of an empty Go program: the time, the CPU and the page faults.
func BenchmarkStartUp(b *testing.B) {
	dir := b.TempDir()
	for name, program := range map[string]string{"complete": buildProgram(b, dir), "empty": emptyProgram(b, dir)} {
		b.Run(name, func(b *testing.B) {
			var cpu time.Duration
			var faults int64
			n := 0
			for b.Loop() {
				cmd := exec.Command(program, completeCommand)
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

// BenchmarkCommandLine measures a command line until its command begins: that of a poll, and of its
// help, which needs all commands.
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
