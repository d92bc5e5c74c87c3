package main

import (
	"os/exec"
	"runtime"
	"testing"
)

// TestFewProcessors checks that a large machine does not make us use more processors
// than a small one, and that a small one stays as it is.
func TestFewProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, test := range []struct{ has, want int }{{1, 1}, {maxProcessors, maxProcessors}, {64, maxProcessors}} {
		runtime.GOMAXPROCS(test.has)
		useFewProcessors()
		if n := runtime.GOMAXPROCS(0); n != test.want {
			t.Errorf("of %d processors we use %d, want %d", test.has, n, test.want)
		}
	}
}

// TestRuntimeSettings checks that the build takes the settings of main.go.
func TestRuntimeSettings(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.DefaultGODEBUG}}", ".").Output()
	if want := "containermaxprocs=0,updatemaxprocs=0\n"; err != nil || string(out) != want {
		t.Errorf("the default of GODEBUG is %q, %v; want %q", out, err, want)
	}
}
