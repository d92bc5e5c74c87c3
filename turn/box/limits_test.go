//go:build linux

package box

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/testkit/limittest"
)

// numbersInSandbox returns the numbers that a script prints in a sandbox.
func numbersInSandbox(t *testing.T, script string) (numbers []int64) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	way, err := Find(t.Context(), self)
	if err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	var out bytes.Buffer
	if err := (Box{Self: self}).Run(t.Context(), way, Program{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Stdout: &out, Stderr: &out}); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for _, word := range strings.Fields(out.String()) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatalf("%s prints %q", script, out.String())
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func TestLimitValues(t *testing.T) {
	const block = 4096
	got := numbersInSandbox(t, "stat -f -c '%b' /tmp; stat -f -c '%b' /dev/shm; stat -f -c '%b' /etc; ulimit -Hn; ulimit -Hs")
	limittest.Run(t, []limittest.Limit{
		{Const: "maxScratch", Max: 1 << 30, Step: block, Within: func(t *testing.T, n int64) bool { return n <= got[0]*block }},
		{Const: "maxShared", Max: 256 << 20, Step: block, Within: func(t *testing.T, n int64) bool { return n <= got[1]*block }},
		{Const: "maxEtc", Max: 1 << 20, Step: block, Within: func(t *testing.T, n int64) bool { return n <= got[2]*block }},
		{Const: "maxFiles", Max: 4096, Within: func(t *testing.T, n int64) bool { return n <= got[3] }},
		{Const: "maxStack", Max: 64 << 20, Step: 1 << 10, Within: func(t *testing.T, n int64) bool { return n <= got[4]<<10 }},
		{Const: "minLandlock", Max: 1, Within: func(t *testing.T, n int64) bool { return !isSupported(uintptr(n)) }},
		limittest.Duration("killDelay", 2*time.Second, 1, func(t *testing.T, d time.Duration) bool {
			return d <= Box{Self: "/bin/true"}.command(t.Context(), Way{}, stage{}, nil).WaitDelay
		}),
		limittest.Duration("dialTimeout", 2*time.Second, 1, func(t *testing.T, d time.Duration) bool { return d <= dialer().Timeout }),
		limittest.Duration("probeTimeout", 10*time.Second, 2, func(t *testing.T, d time.Duration) (lives bool) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := probeContext(context.Background())
				defer cancel()
				time.Sleep(d - 1)
				lives = ctx.Err() == nil
			})
			return lives
		}),
	})
}
