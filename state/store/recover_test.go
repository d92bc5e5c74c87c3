package store

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestReplay checks in every story that replaying the newer history on an older state restores the
// lost state, as far as a recovery must (docs/design.md, "Recovery"). It tries the last two states
// and every third older one. A run that requires real programs tries all.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.txt")
	check(t, err)
	every := 3
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
		every = 1
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if strings.HasPrefix(name, "clock-") {
			continue // times of a wrong clock are repaired in the state, never in the history
		}
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			check(t, err)
			story := statetest.New()
			var states []state.State
			var lines []state.Line
			for _, line := range storyLines(string(data)) {
				events := mustRead(t, story, line)
				if events == nil {
					continue
				}
				story.S = state.Step(story.S, events, story.P, story.Now)
				story.Name()
				states = append(states, story.S)
				lines = append(lines, story.S.Lines...)
				want := recoverable(story.S)
				w := statetest.JSON(t, want)
				for age, older := range slices.Backward(states) {
					if age%every != 0 && age < len(states)-2 {
						continue
					}
					got := recoverable(state.Replay(older, slices.Clone(lines)))
					got.Seen = restrictTo(got.Seen, want.Seen) // replay forgets nothing by age
					if reflect.DeepEqual(got, want) {
						continue
					}
					if g := statetest.JSON(t, got); g != w {
						t.Fatalf("%s\nfrom serial %d to %d: replay gives\n%s\nwant\n%s", line, older.Serial, story.S.Serial, g, w)
					}
				}
			}
		})
	}
}

// recoverable returns what a recovery must bring back. The history does not say how often
// a row was tried, and the cursor and what is owed to servers are asked for again.
func recoverable(s state.State) state.State {
	kept := state.State{
		Identity:       state.Identity{Agent: s.Agent},
		Timers:         state.Timers{Phase: s.Phase, PhaseSince: s.PhaseSince, LastOperator: s.LastOperator},
		Halts:          state.Halts{HaltedHere: s.HaltedHere, HaltedMesh: s.HaltedMesh},
		Waking:         state.Waking{AckWaits: s.AckWaits, Unmailed: s.Unmailed},
		Reading:        state.Reading{Seen: map[string]int64{}},
		Received:       state.Received{Inbox: s.Inbox, Arrivals: s.Arrivals, Quarantined: s.Quarantined, Unkept: s.Unkept},
		ChallengeQueue: state.ChallengeQueue{LastChallenge: s.LastChallenge},
		Work:           state.Work{Streak: s.Streak, Epoch: s.Epoch, Turn: s.Turn},
		Faults:         state.Faults{Credentials: map[string]state.Credential{}},
		Schedule:       state.Schedule{Removed: s.Schedule.Removed},
	}
	kept.LastMail, kept.LastAnswer = s.LastMail, s.LastAnswer
	kept.LastMail.Subject = ""           // not in the history
	for name, c := range s.Credentials { // the failure count restarts
		kept.Credentials[name] = state.Credential{Since: c.Since, Keymaster: c.Keymaster, Operator: c.Operator}
	}
	// The history has neither the counted ids nor the reported death.
	kept.Purse = s.Purse
	kept.Purse.Counted, kept.Purse.DeathTold = nil, ""
	kept.Turn.Working = false // the mail may be switched off
	// Each step recomputes when the hourly rate allows a message.
	kept.Inbox = slices.Clone(kept.Inbox)
	for i, msg := range kept.Inbox {
		if slices.Contains([]string{state.OverRate, state.OverEventRate, state.CollectReason}, msg.Reason) {
			kept.Inbox[i].Status, kept.Inbox[i].Reason = state.Queued, ""
		}
		if msg.Damaged { // the count of failed refetches restarts
			kept.Inbox[i].Refetches, kept.Inbox[i].NextRetryAt = 0, time.Time{}
		}
		if kept.Inbox[i].Status == state.Queued {
			kept.Inbox[i].NextRetryAt = time.Time{}
		}
	}
	if len(kept.Inbox) == 0 {
		kept.Inbox = nil
	}
	kept.Challenges = append(kept.Challenges, s.Challenges...)
	kept.Unasked = append(kept.Unasked, s.Unasked...)
	kept.Doubtful = append(kept.Doubtful, s.Doubtful...)
	kept.Expected = append(kept.Expected, s.Expected...)
	for key := range s.Seen {
		// A further report about a lost mail has no line. Reading it again changes nothing.
		if !strings.HasPrefix(key, "bounce ") {
			kept.Seen[key] = 0
		}
	}
	for _, e := range s.Undelivered {
		e.Attempts, e.Copies, e.Unknown, e.Waited, e.Denied = 0, 0, false, 0, false
		kept.Undelivered = append(kept.Undelivered, e)
	}
	for _, e := range s.Outbox {
		e.NotBefore, e.Attempts, e.Copies, e.Unknown, e.Sending, e.Reason, e.Waited = time.Time{}, 0, 0, false, false, "", 0
		e.Denied = false
		kept.Outbox = append(kept.Outbox, e)
	}
	return kept
}

// restrictTo returns the entries of m whose keys are in n.
func restrictTo(m, n map[string]int64) map[string]int64 {
	maps.DeleteFunc(m, func(key string, _ int64) bool { _, ok := n[key]; return !ok })
	return m
}

func put(t *testing.T, st *Store, name, content string) {
	t.Helper()
	// Never write in place: state.json and its copy may be the same file.
	remove(t, st, name)
	check(t, os.WriteFile(st.path(name), []byte(content), 0o600))
}

func remove(t *testing.T, st *Store, name string) {
	t.Helper()
	check(t, removeIfThere(st.path(name)))
}

// TestCorruptState checks that a corrupt state is rebuilt from its copy and the history, that the
// bad file is kept, and that the operator is informed once.
func TestCorruptState(t *testing.T) {
	for name, content := range statetest.BadStates {
		t.Run(name, func(t *testing.T) {
			st, story := startedStore(t)
			put(t, st, stateFile, content)
			checkRecovered(t, st, story, "it could not be read")
			corrupt := glob(t, st, "state.json.corrupt-*")
			if len(corrupt) != 1 {
				t.Fatalf("set aside: %v", corrupt)
			}
			if data, err := os.ReadFile(corrupt[0]); err != nil || string(data) != content {
				t.Errorf("what was set aside is %q, %v", data, err)
			}
		})
	}
}

// TestMissingState checks that a missing state with a copy or a history counts as
// corrupt.
func TestMissingState(t *testing.T) {
	st, story := startedStore(t)
	remove(t, st, stateFile)
	checkRecovered(t, st, story, "it was missing")
}

// TestCorruptTwice loses the rebuilt state again, before its copy was renewed.
func TestCorruptTwice(t *testing.T) {
	st, story := startedStore(t)
	put(t, st, stateFile, "")
	checkRecovered(t, st, story, "it could not be read")
	story.S = mustState(t, st)
	put(t, st, stateFile, "bad again")
	remove(t, st, stateFile+".tmp")
	s, recovery, err := st.load()
	if err != nil || recovery.Reason == "" {
		t.Fatalf("load: %q, %v", recovery.Reason, err)
	}
	if g, w := statetest.JSON(t, recoverable(s)), statetest.JSON(t, recoverable(story.S)); g != w {
		t.Errorf("recovered\n%s\nwant\n%s", g, w)
	}
}

func glob(t *testing.T, st *Store, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(st.path(pattern))
	check(t, err)
	return names
}

// checkRecovered commits twice over a lost state. It checks that the story's state is back
// and that the operator was informed once.
func checkRecovered(t *testing.T, st *Store, story *statetest.Story, why string) {
	t.Helper()
	lost := story.S
	s, err := st.Read()
	if err != nil {
		t.Fatalf("status must still show something: %v", err)
	}
	if g, w := statetest.JSON(t, recoverable(s)), statetest.JSON(t, recoverable(lost)); g != w {
		t.Errorf("recovered\n%s\nwant\n%s", g, w)
	}
	if len(glob(t, st, "state.json.corrupt-*")) > 0 {
		t.Error("a reader has set the file aside")
	}
	notices := 0
	for range 2 {
		check(t, commitLine(st, story, "09:40 poll"))
		for _, l := range story.S.Lines {
			if l.Kind == state.LineRecovery {
				notices++
				if !strings.HasPrefix(l.Reason, why) {
					t.Errorf("reason %q, want %q", l.Reason, why)
				}
			}
		}
	}
	if notices != 1 {
		t.Errorf("reported %d times", notices)
	}
	if story.S.Serial != lost.Serial+2 {
		t.Errorf("serial %d after %d: a serial was used twice, or skipped", story.S.Serial, lost.Serial)
	}
}

// TestRebuildFromHistory checks that with an unusable copy the state is rebuilt from the
// history, in IDLE, and asks for the mail since the last one it took.
func TestRebuildFromHistory(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, st *Store){
		"both corrupt":        func(t *testing.T, st *Store) { put(t, st, stateFile, "{"); put(t, st, prevFile, "") },
		"corrupt, no copy":    func(t *testing.T, st *Store) { put(t, st, stateFile, "{"); remove(t, st, prevFile) },
		"missing, no copy":    func(t *testing.T, st *Store) { remove(t, st, stateFile); remove(t, st, prevFile) },
		"missing, copy empty": func(t *testing.T, st *Store) { remove(t, st, stateFile); put(t, st, prevFile, "") },
	} {
		t.Run(name, func(t *testing.T) {
			st, story := startedStore(t)
			// A month without a readable mailbox, but with messages of a peer.
			for _, line := range []string{"day 2026-04-02", "09:40 mesh q2; blind", "09:41 mesh q3; blind"} {
				if strings.HasPrefix(line, "day") {
					mustRead(t, story, line)
				} else if err := commitLine(st, story, line); err != nil {
					t.Fatal(err)
				}
			}
			damage(t, st)
			s, recovery, err := st.load()
			if err != nil || recovery.Reason == "" {
				t.Fatalf("load: %q, %v", recovery.Reason, err)
			}
			want := recoverable(story.S)
			want.Phase = state.IDLE
			if g, w := statetest.JSON(t, recoverable(s)), statetest.JSON(t, want); g != w {
				t.Errorf("rebuilt\n%s\nwant\n%s", g, w)
			}
			if at := s.Cursor.Complete.Format(time.DateOnly); at != "2026-03-02" || s.Cursor.Next != 0 {
				t.Errorf("cursor %+v: mail that came in the month is lost", s.Cursor)
			}
			if s.Seed == "" || s.Seed == story.S.Seed {
				t.Errorf("seed %q", s.Seed)
			}
			check(t, commitLine(st, story, "09:42 poll"))
			if n := len(story.S.Acks); n > 0 {
				t.Errorf("%d acks of last month still count", n)
			}
		})
	}
}

// TestRecoveryAfterCrash breaks the commit that recovers at every step that touches the
// disk. The next one recovers, and the operator is informed once.
func TestRecoveryAfterCrash(t *testing.T) {
	base, history := startedStore(t)
	lost := history.S
	put(t, base, stateFile, "{")
	for _, f := range faults[:3] {
		t.Run(f.name, func(t *testing.T) {
			for n := 1; ; n++ {
				st := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: base.Agent}
				copyDir(t, base.Dir, st.Dir)
				left := n
				where := ""
				st.Hook = func(step, path string) error {
					if left--; left != 0 {
						return nil
					}
					where = step + " " + filepath.Base(path)
					return f.strike(t, st, step, path)
				}
				story := statetest.New()
				story.S = lost
				func() {
					defer func() {
						if p := recover(); p != nil && p != errCrash {
							panic(p)
						}
					}()
					_ = commitLine(st, story, "09:40 poll")
				}()
				if where == "" {
					break
				}
				st.Hook = nil
				for range 2 {
					if err := commitLine(st, story, "09:41 poll"); err != nil {
						t.Fatalf("%s: %v", where, err)
					}
				}
				notices := 0
				for _, e := range story.S.Outbox {
					if e.Kind == state.Notice && strings.Contains(e.Text, "rebuilt") {
						notices++
					}
				}
				if notices != 1 {
					t.Errorf("%s: reported %d times", where, notices)
				}
				if corrupt := glob(t, st, "state.json.corrupt-*"); len(corrupt) != 1 {
					t.Errorf("%s: set aside: %v", where, corrupt)
				}
				if _, ok := story.S.Message("q1"); !ok {
					t.Errorf("%s: the peer's message is lost", where)
				}
			}
		})
	}
}

// TestForeignStateIsRefused checks that a state of a newer program or of another agent is left unchanged,
// with a clear error.
func TestForeignStateIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    error
	}{
		"newer":         {`{"version":3,"agent":"goulard3120","phase":"DOZE","turn":7}`, ErrNewer},
		"another agent": {`{"version":1,"agent":"dorlange3120","phase":"IDLE","turn":{"status":"idle"}}`, ErrOtherAgent},
	} {
		t.Run(name, func(t *testing.T) {
			st, story := startedStore(t)
			put(t, st, stateFile, c.content)
			if _, err := st.Read(); !errors.Is(err, c.want) {
				t.Errorf("Read: %v", err)
			}
			if err := commitLine(st, story, "09:40 poll"); !errors.Is(err, c.want) {
				t.Errorf("Commit: %v", err)
			}
			if data, err := os.ReadFile(st.path(stateFile)); err != nil || string(data) != c.content {
				t.Errorf("the file is %q now, %v", data, err)
			}
		})
	}
}

// TestCorruptStateWithNewerCopy checks an unusable state with a copy of a newer program.
func TestCorruptStateWithNewerCopy(t *testing.T) {
	st, story := startedStore(t)
	put(t, st, stateFile, "{")
	put(t, st, prevFile, `{"version":3}`)
	if err := commitLine(st, story, "09:40 poll"); !errors.Is(err, ErrNewer) {
		t.Errorf("Commit: %v", err)
	}
}

// TestNewAgentNeedsNoRecovery checks that an agent that never polled has a new state and no
// recovery.
func TestNewAgentNeedsNoRecovery(t *testing.T) {
	st := &Store{Dir: filepath.Join(t.TempDir(), "never", "made"), Agent: "goulard3120"}
	s, err := st.Read()
	if err != nil || s.Phase != state.IDLE || s.Serial != 0 || s.Agent != "goulard3120" {
		t.Errorf("Read: %+v, %v", s, err)
	}
	if _, err := os.Stat(filepath.Dir(st.Dir)); !errors.Is(err, os.ErrNotExist) {
		t.Error("Read has made the directory")
	}
	if _, err := st.Commit(context.Background(), time.Now(), func(s state.State, recovery Recovery) (state.State, error) {
		if recovery.Reason != "" {
			t.Errorf("recovery %q", recovery.Reason)
		}
		return state.Step(s, nil, statetest.Policy(), time.Now()), nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestUnusableDirectoryIsAnError checks that a directory that cannot be used causes an error that
// names it, and that nothing is consumed.
func TestUnusableDirectoryIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "agent"), "/proc/nothing/here"} {
		st := &Store{Dir: dir, Agent: "goulard3120"}
		called := false
		_, err := st.Commit(context.Background(), time.Now(), func(s state.State, _ Recovery) (state.State, error) {
			called = true
			return state.Step(s, nil, statetest.Policy(), time.Now()), nil
		})
		if err == nil || called || !strings.Contains(err.Error(), "state directory") {
			t.Errorf("%s: %v", dir, err)
		}
		if err := st.Keep("messages/m1", strings.NewReader("x")); err == nil {
			t.Errorf("%s: Keep does not fail", dir)
		}
		if err := st.Ring("me", ""); err == nil {
			t.Errorf("%s: Ring does not fail", dir)
		}
	}
}

// TestTemporaryFilesAreHarmless checks that temporary names left by a crash do no harm.
func TestTemporaryFilesAreHarmless(t *testing.T) {
	st, story := startedStore(t)
	put(t, st, stateFile+".tmp", "half a sta")
	check(t, os.Link(st.path(prevFile), st.path(prevFile+".tmp")))
	before := story.S
	check(t, commitLine(st, story, "09:40 go"))
	if names := glob(t, st, "*.tmp"); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
	prev, err := st.parseStored(prevFile)
	check(t, err)
	statetest.SameState(t, prev.State, before)
	// After a crash between the two renames, both names are the same file.
	remove(t, st, prevFile)
	check(t, os.Link(st.path(stateFile), st.path(prevFile)))
	for _, line := range []string{"09:41 halt", "09:42 go"} {
		check(t, commitLine(st, story, line))
	}
	if prev, err := st.parseStored(prevFile); err != nil || prev.Serial != story.S.Serial-1 {
		t.Errorf("the copy has serial %d, %v; the state %d", prev.Serial, err, story.S.Serial)
	}
	if names := glob(t, st, "*.tmp"); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}
