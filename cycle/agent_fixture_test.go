package cycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// inside is the program as an agent calls it from inside its turn: "submit TEXT
// [NAME=VALUE…] [--file FILE]", "ask HANDLE TEXT DURATION [FIELDS]", "send HANDLE TEXT",
// "sleep DURATION", "remember TEXT". file holds the agent's blueprint.
func inside(file string, args []string) int {
	var b blueprint
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err == nil {
		err = b.call(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return exitDone
}

func (b blueprint) call(args []string) error {
	epoch, err := strconv.ParseUint(os.Getenv("AGENTSTATELOOP_EPOCH"), 10, 64)
	if err != nil {
		return err
	}
	a := b.agent(func() time.Time { return b.Now })
	a.Self = []string{"/bin/false"}
	in := cycle.Inside{TurnID: os.Getenv("AGENTSTATELOOP_TURN"), Epoch: epoch}
	ctx := context.Background()
	switch verb := args[0]; {
	case verb == "submit":
		sub := cycle.Submission{Text: args[1]}
		for i := 2; i < len(args); i++ {
			if args[i] == "--file" {
				i++
				sub.Files = append(sub.Files, args[i])
				continue
			}
			name, value, _ := strings.Cut(args[i], "=")
			sub.Fields = append(sub.Fields, cycle.Field{Name: name, Text: value})
		}
		return a.Submit(ctx, in, sub)
	case verb == "ask-operator": // TEXT PATIENCE OPTION...
		q := cycle.OperatorQuestion{Text: args[1], Options: args[3:]}
		if q.Patience, err = time.ParseDuration(args[2]); err != nil {
			return err
		}
		id, err := a.AskOperator(ctx, in, q)
		fmt.Println(id)
		return err
	case verb == "ask" && len(args) >= 4:
		q := cycle.Question{To: args[1], Text: args[2]}
		q.Patience, err = time.ParseDuration(args[3])
		paths := args[4:]
		if len(paths) > 0 && strings.HasPrefix(paths[0], "[") {
			err = errors.Join(err, json.Unmarshal([]byte(paths[0]), &q.Fields))
			paths = paths[1:]
		}
		if err != nil {
			return err
		}
		list, closeAll, err := files.Open(paths)
		if err != nil {
			return err
		}
		defer closeAll()
		q.Files = list
		id, err := a.Ask(ctx, in, q)
		fmt.Println(id)
		return err
	case verb == "send" && len(args) >= 3:
		list, closeAll, err := files.Open(args[3:])
		if err != nil {
			return err
		}
		defer closeAll()
		return a.Send(ctx, in, args[1], args[2], list...)
	case verb == "remember" && len(args) == 2:
		return a.Remember(ctx, in, args[1])
	case verb == "search" && len(args) == 2:
		found, err := a.SearchInside(in, args[1], 5)
		fmt.Println(found)
		return err
	case verb == "sleep" && len(args) == 2:
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		return a.Sleep(ctx, in, d, "")
	case verb == "sleep" && len(args) == 3, verb == "remind" && len(args) == 3:
		d, err := time.ParseDuration(args[1])
		if err == nil && verb == "sleep" {
			return a.Sleep(ctx, in, d, args[2])
		}
		_, err = a.Remind(ctx, in, args[1], args[2])
		return err
	}
	return fmt.Errorf("%q is nothing that an agent can call", args)
}

// playScript makes the agent's program a shell script in which "us" is our program.
// Each run is noted in "runs", and its prompt is kept in "prompt".
func (h *fixture) playScript(script string) {
	h.t.Helper()
	us := fmt.Sprintf("us() { GORACE=atexit_sleep_ms=0 '%s' __inside '%s' \"$@\"; }\n", h.blueprint.Self, h.blueprintFile())
	h.script("#!/bin/sh\n" + us + `echo "$AGENTSTATELOOP_TURN $AGENTSTATELOOP_EPOCH" >>runs` + "\ncat >prompt\n" + script)
}

// pipe makes a fifo in the agent's workdir. wait returns when the agent has
// written a line into it; open lets an agent go on that reads it.
func (h *fixture) pipe(name string) (wait, open func()) {
	h.t.Helper()
	path := filepath.Join(h.blueprint.Dir, name)
	check(h.t, syscall.Mkfifo(path, 0o600))
	wait = func() {
		h.t.Helper()
		_, err := os.ReadFile(path)
		check(h.t, err)
	}
	open = func() { // without waiting: the agent may have been ended, or may not read yet
		h.t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		check(h.t, err)
		h.t.Cleanup(func() { f.Close() }) // unread data is lost with the last descriptor
		_, err = f.WriteString("go\n")
		check(h.t, err)
	}
	return wait, open
}

// killRunner starts a poll in a process of its own, and kills it once ready returns.
func (h *fixture) killRunner(ready func()) {
	h.t.Helper()
	runner := h.poller(h.blueprintFile(), "poll")
	check(h.t, runner.Start())
	ready()
	check(h.t, runner.Process.Kill())
	runner.Wait() // its error is that it was killed
}

// pollInBackground polls in the background; wait returns its report.
func (h *fixture) pollInBackground() (wait func() cycle.Report) {
	h.t.Helper()
	done := pollOf(h.t.Context(), h.agent, cycle.PollOptions{})
	return func() cycle.Report {
		h.t.Helper()
		got := <-done
		check(h.t, got.err)
		return got.report
	}
}

// pollResult is the result of a poll in the background.
type pollResult struct {
	report cycle.Report
	err    error
}

// pollOf polls in the background.
func pollOf(ctx context.Context, a *cycle.Agent, o cycle.PollOptions) <-chan pollResult {
	done := make(chan pollResult, 1)
	go func() {
		r, err := a.Poll(ctx, o)
		done <- pollResult{r, err}
	}()
	return done
}

// cron polls as another process does while a turn runs.
func (h *fixture) cron() cycle.Report {
	h.t.Helper()
	other := h.blueprint.agent(h.clock.Now)
	other.Self = []string{"/bin/false"}
	other.Mail.Filter = h.agent.Mail.Filter
	r, err := other.Poll(h.t.Context(), cycle.PollOptions{})
	check(h.t, err)
	return r
}

// until returns when ok holds.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(time.Minute); !ok(); {
		select {
		case <-over:
			t.Fatalf("%s: timed out", what)
		case <-tick.C:
		}
	}
}

// workFile returns a file of the agent's workdir, or "" if it does not exist.
func (h *fixture) workFile(name string) string {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.blueprint.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	check(h.t, err)
	return strings.TrimSpace(string(data))
}

// wantTasks fails unless exactly these turns have ended.
func (h *fixture) wantTasks(outcomes ...state.Outcome) []state.Line {
	h.t.Helper()
	tasks := h.lines(state.LineTask)
	var got []state.Outcome
	for _, l := range tasks {
		got = append(got, l.Outcome)
	}
	if fmt.Sprint(got) != fmt.Sprint(outcomes) {
		h.t.Fatalf("turns ended %v, want %v: %+v", got, outcomes, tasks)
	}
	return tasks
}

// attempt returns the folder of the attempt that the state shows.
func (h *fixture) attempt() string {
	h.t.Helper()
	head := h.state().Turn
	return h.agent.Store.Path(filepath.Join(store.TurnsDir, head.TurnID, fmt.Sprint(head.Epoch)))
}
