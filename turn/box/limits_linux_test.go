package box_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn/box"
)

// TestLimitsOfProgram checks that a program that exceeds a limit fails, or that its whole sandbox is
// ended, and that the output has the reason.
func TestLimitsOfProgram(t *testing.T) {
	t.Parallel()
	limits := box.Limits{Processes: 64, Memory: 128 << 20, FileSize: 1 << 20, CPU: time.Minute}
	for name, c := range map[string]struct{ script, want string }{
		"a fork bomb":         {"f() { [ -e stop ] || f | f & }; f; sleep 2", "more than 64|Cannot fork|Resource temporarily"},
		"many processes":      {"for i in $(seq 100); do sleep 1000 & done; sleep 2", "more than 64|Cannot fork|Resource temporarily"},
		"daemons":             {"for i in $(seq 100); do setsid -f sleep 1000; done; sleep 2", "more than 64|Cannot fork|Resource temporarily|fork failed"},
		"memory of one":       {"head -c 200m /dev/zero | tail", "exhausted|more than 128 MiB"},
		"memory of many":      {"for i in 1 2 3 4 5; do { head -c 60m /dev/zero; sleep 1000; } | tail & done; wait", "more than 128 MiB"},
		"a large file":        {"head -c 5m /dev/zero >large; s=$(stat -c %s large); echo size $s", "size 1048576\n"},
		"a large file, moved": {"truncate -s 5m large && echo made", "File size limit"},
		"/tmp":                {"stat -f -c 'blocks %b of %S' /tmp", "blocks 262144 of 4096"},
		"/dev/shm":            {"stat -f -c 'blocks %b of %S' /dev/shm", "blocks 65536 of 4096"},
		"/dev":                {"head -c 1 /dev/zero >/dev/file", "Read-only"},
		"time":                {"while :; do :; done", "killed"},
		"descriptors":         {"ulimit -Hn", "4096\n"},
		"a core":              {"ulimit -Hc", "0\n"},
		"raised again":        {"ulimit -f unlimited", "permitted|ulimit"},
	} {
		t.Run(name, func(t *testing.T) {
			inEachWay(t, func(t *testing.T, w box.Way) {
				dir, mark := newMark(t)
				// A fork bomb without a limit ends itself, so that this machine stays usable.
				fuse := time.AfterFunc(5*time.Second, func() { _ = os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600) })
				defer fuse.Stop()
				limits := limits
				if name == "time" { // on a slow machine a second is not enough to use 128 MiB
					limits.CPU = time.Second
				}
				b := box.Box{Self: self(t), Write: []string{dir}, Dir: dir, Limits: limits}
				got, err := run(t, b, w, "sh", "-c", c.script, mark)
				if name == "time" && err != nil && err.Error() == "exit status 137" {
					got = "killed"
				}
				if !anyIn(got, c.want) {
					t.Errorf("%v, %q, want %q", err, got, c.want)
				}
				if n := countProcesses(t, mark); n != 0 {
					t.Errorf("%d processes are left", n)
				}
			})
		})
	}
}

func anyIn(text, words string) bool {
	for word := range strings.SplitSeq(words, "|") {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
