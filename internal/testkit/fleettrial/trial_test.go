// Package fleettrial_test kills, stops, cuts off and copies the hosts of agents that have several.
// Servers, hosts and agents are real processes: the servers are three nats-servers, a host is a
// directory with a crontab of its own, and an agent is a shell script.
package fleettrial_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// requireReal names the variable without which these tests are skipped.
const requireReal = "AGENTSTATELOOP_REQUIRE_REAL"

func skipUnlessReal(t testing.TB) {
	t.Helper()
	if os.Getenv(requireReal) == "" {
		t.Skip("takes four minutes: set " + requireReal + "=1")
	}
}

// program is the path of the program under test.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the program and runs the tests.
func run(m *testing.M) int {
	if os.Getenv(requireReal) == "" {
		return m.Run()
	}
	flag.Set("test.parallel", "100") // the tests wait for leases to end; the command line may say another number
	dir, err := os.MkdirTemp("", "fleettrial-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "agentstateloop")
	// As the README installs it, but for the home directory, which is that of a host.
	build := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs,nethttpomithttp2",
		"-ldflags", "-s -w -X agentstateloop/internal/account.testHome=HOME", "-o", program, "agentstateloop")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// The times of the trial. cron of a real host polls each minute, with a lease of 150 seconds.
const (
	lease     = 30 * time.Second
	lapse     = lease + lease/100 + 5*time.Second // the silence after which a standby takes the seat
	pollEvery = 5 * time.Second
	orphan    = time.Minute + 15*time.Second // how long a turn of the dead host is left alone

	// takeoverMargin is for a machine that is busy with all of the tests. An event that takes this
	// much longer does not come.
	takeoverMargin = time.Minute

	// pointPatience is how long a host may take to come to the point where it is to be killed.
	pointPatience = 20 * time.Second
)
