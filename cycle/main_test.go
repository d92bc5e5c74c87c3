package cycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit"
	"agentstateloop/turn"
)

// Exit codes of a poller, as on the command line, and of one that dies.
const (
	exitDone   = 0
	exitFailed = 1
	exitBusy   = 75
	exitDied   = 137
)

// summaryDir is the folder in which a summary is made, below the state
// directory.
const summaryDir = "turns/compact/0"

// TestMain lets the test binary stand in for the program. A turn starts it as
// `__attempt`, its agent calls it as `__inside`, and tests that need several
// processes start it as `__poller`.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__attempt" {
		fmt.Fprintln(os.Stderr, turn.Main(os.Args[2:]))
		os.Exit(exitFailed)
	}
	if len(os.Args) > 3 && os.Args[1] == "__detached" {
		os.Exit(reportDetached(os.Args[2], os.Args[3:]))
	}
	if len(os.Args) > 3 && os.Args[1] == "__inside" {
		os.Exit(inside(os.Args[2], os.Args[3:]))
	}
	if len(os.Args) > 3 && os.Args[1] == "__poller" {
		os.Exit(poller(os.Args[2], os.Args[3:]))
	}
	if err := testkit.InMemory(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	flag.Set("test.parallel", "4") // most of these tests wait; the command line may say another number
	debug.SetGCPercent(400)        // many short tests, of which none holds much
	os.Exit(m.Run())
}

// poller is one process of the agent whose blueprint is in file. args say what
// it does: "poll"; "ring-and-poll"; "die-at N", which ends at its Nth moment
// (see dieAt); or "summarise", which is only the part of a poll that makes a
// summary.
func poller(file string, args []string) int {
	var b blueprint
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	agent := b.agent(func() time.Time { return b.Now })
	agent.Self = b.detachedSelf()
	switch args[0] {
	case "summarise":
		if _, err := agent.Turn.Run(context.Background(), turn.Attempt{Dir: agent.Store.Path(summaryDir), TurnID: "compact"}, nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed
		}
		return exitDone
	case "ring-and-poll":
		if err := agent.Ring("test", ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed
		}
	case "die-at":
		n, err := strconv.Atoi(args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed
		}
		agent.Store.Hook = dieAt(n)
	}
	_, err = agent.Poll(context.Background(), cycle.PollOptions{})
	switch {
	case errors.Is(err, cycle.ErrBusy):
		return exitBusy
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return exitDone
}

// reportDetached is a detached poll that only reports itself to the test.
func reportDetached(addr string, args []string) int {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return exitFailed // nobody listens
	}
	defer conn.Close()
	fmt.Fprint(conn, strings.Join(args, " "))
	return exitDone
}
