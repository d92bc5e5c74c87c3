package state_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// restoredStory returns an agent with every kind of row, restored from a backup, and its lines since
// then.
func restoredStory(t *testing.T, more ...string) (st *statetest.Story, lines []state.Line) {
	t.Helper()
	st = statetest.New()
	for _, line := range []string{
		"08:00 mail m1 uid=1; mesh q1 id=q1 correlation=c1; tell c2; refused x1 trust ask \"no word\"; poll",
		"08:01 claim", "08:01:05 start", "08:01:10 plan reminder r1 for=8h \"late\"", "08:01:20 question for=6h \"May I?\"",
		"08:02 mail m2 uid=2; poll",
	} {
		play(t, st, line)
	}
	for _, line := range append([]string{"10:00 restored backup.tar made=08:02"}, more...) {
		play(t, st, line)
		lines = append(lines, st.S.Lines...)
	}
	return st, lines
}

func play(t *testing.T, st *statetest.Story, line string) {
	t.Helper()
	check(t, st.Play(line))
}

// heldKeys returns the keys of the rows that a restore holds.
func heldKeys(s state.State) string {
	var keys []string
	for _, msg := range s.HeldRows() {
		keys = append(keys, msg.Key)
	}
	return strings.Join(keys, " ")
}

// TestRecoveryKeepsWhatIsHeld checks that a state which is lost again after a restore, and rebuilt
// from its copy or from the history alone, runs nothing that the restored one would not run.
func TestRecoveryKeepsWhatIsHeld(t *testing.T) {
	for _, c := range []struct {
		name, held string
		over       bool
		more       []string
	}{
		{"at once", "m1 q1 c2 m2", false, nil},
		{"after the scan", "q1 c2 m2", true, []string{`10:01 settled m1 "answered"; settled m9 digest=d9 "answered"; refused m8 restored "read"; poll`}},
		{"after a retry", "m1 q1 m2", false, []string{"10:01 retry c2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := statetest.New()
			var all []state.Line
			for _, line := range []string{"08:00 mail m1 uid=1; mesh q1 id=q1 correlation=c1; tell c2; poll", "08:01 claim", "08:01:05 start", "08:02 mail m2 uid=2; poll"} {
				play(t, before, line)
				all = append(all, before.S.Lines...)
			}
			st, lines := restoredStory(t, c.more...)
			for name, got := range map[string]state.State{
				"from the copy":    state.Replay(before.S, after(before.S.Serial, lines)),
				"from the history": state.Rebuild(state.New("goulard3120", "other"), slices.Concat(all, after(before.S.Serial, lines))),
			} {
				if keys := heldKeys(got); keys != c.held || heldKeys(st.S) != c.held {
					t.Errorf("%s: it holds %q, and the restored state %q, want %q", name, keys, heldKeys(st.S), c.held)
				}
				if got.Turn.Status != state.HeadIdle || got.Place != st.S.Place {
					t.Errorf("%s: turn %+v, place %s, want %s", name, got.Turn, got.Place, st.S.Place)
				}
				if (got.Cursor.Restored == nil) != c.over || got.Restore == nil || got.Restore.Over != c.over {
					t.Errorf("%s: cursor %+v, restore %+v", name, got.Cursor.Restored, got.Restore)
				}
				if c.over && (!got.Accepts("m9") || !got.KnowsRejected("m8", "")) {
					t.Errorf("%s: the mails of the mailbox are not known", name)
				}
			}
		})
	}
}

// after returns the lines with serials above serial, as a recovery reads them.
func after(serial uint64, lines []state.Line) (newer []state.Line) {
	for _, l := range lines {
		l.Serial += 1000 // the stories have different numbers of steps
		newer = append(newer, l)
	}
	return newer
}

// TestHeldRowsDoNothing checks that held rows make no poll due, keep no phase up and are no message
// of a turn.
func TestHeldRowsDoNothing(t *testing.T) {
	st, _ := restoredStory(t)
	play(t, st, "10:01 poll")
	for now := st.Now; now.Before(st.Now.Add(5 * time.Hour)); now = now.Add(7 * time.Minute) {
		if st.S.CanRun(st.P, now) || strings.Contains(st.S.DueRow(st.P, now), "inbox") {
			t.Fatalf("at %v a turn can run", now)
		}
	}
	for _, msg := range st.S.HeldRows() {
		if h, held := st.S.HeldBack(msg, st.P, st.Now); !held || h.Why != state.HeldReason {
			t.Errorf("%s: %+v, %v", msg.Key, h, held)
		}
		if msg.TurnID != "" {
			t.Errorf("%s keeps the turn %s, whose answer may have left", msg.Key, msg.TurnID)
		}
	}
	play(t, st, "10:02 mail m3 uid=103; poll")
	if lease := st.S.NextLease(st.P, st.Now); len(lease) != 1 || lease[0].Key != "m3" {
		t.Errorf("the next turn is about %+v", lease)
	}
	st.P.Collect = time.Minute
	play(t, st, "10:20 mail m4 uid=104; poll")
	if lease := st.S.LeaseOf(st.P, "m4"); len(lease) != 1 {
		t.Errorf("a held row shares a turn: %+v", lease)
	}
}

// TestRestoredMeshRows checks the age above which a row for the mesh waits for a person.
func TestRestoredMeshRows(t *testing.T) {
	for days, want := range map[int]int{6: 1, 7: 0} {
		st := statetest.New()
		play(t, st, `08:00 credential imap "denied"; blind`) // an alarm for the keymaster
		if len(st.S.Outbox) != 1 || st.S.Outbox[0].Channel != state.ByMesh {
			t.Fatalf("the outbox is %+v", st.S.Outbox)
		}
		st.S.Outbox[0].NotBefore = st.Now.AddDate(0, 0, days).Add(time.Minute)
		s := state.Step(st.S, []state.Event{state.Restored{Made: st.Now, From: "backup.tar", Seed: "s"}}, st.P, st.Now.AddDate(0, 0, days))
		if len(s.Outbox) != want || len(s.Undelivered) != 1-want {
			t.Errorf("after %d days %d wait and %d are kept", days, len(s.Outbox), len(s.Undelivered))
		}
		if want > 0 && len(s.DueEffects(s.LastStep)) != 1 {
			t.Error("the row is not due")
		}
	}
}

// TestVersionOfRestored checks that an older program refuses a state that it would misread, and only
// such a state.
func TestVersionOfRestored(t *testing.T) {
	st, _ := restoredStory(t)
	steps := []struct {
		line string
		want int
	}{
		{"10:01 poll", state.VersionHeld}, // held rows
		{"10:02 retry m1; retry q1; drop c2; drop m2", state.Version},
		{`10:03 moved other "backup.tar"`, state.VersionHeld},
		{"10:04 stays", state.Version},
	}
	if st.S.Version != state.VersionHeld {
		t.Errorf("restored: version %d", st.S.Version)
	}
	for _, step := range steps {
		if play(t, st, step.line); st.S.Version != step.want {
			t.Errorf("%s: version %d, want %d", step.line, st.S.Version, step.want)
		}
	}
}

// TestPlaceOfTheState checks when a state gets another place.
func TestPlaceOfTheState(t *testing.T) {
	places := map[string]string{}
	note := func(when string, s state.State) {
		if len(s.Place) != 16 || places[s.Place] != "" {
			t.Errorf("%s: the place is %q, as %s", when, s.Place, places[s.Place])
		}
		places[s.Place] = when
	}
	st := statetest.New()
	note("new", st.S)
	first := st.S.Place
	play(t, st, "08:00 poll")
	if st.S.Place != first {
		t.Error("a poll changes the place")
	}
	play(t, st, "09:00 restored backup.tar made=08:00")
	note("restored", st.S)
	play(t, st, "10:00 moved other \"b\"")
	play(t, st, "10:01 stays")
	note("moved back", st.S)
	old := st.S
	old.Place = ""
	if s := state.Step(old, nil, st.P, st.Now); s.Place == "" {
		t.Error("a state of an older version gets no place")
	}
}

// TestUnreadMailbox checks that a backup from before the first poll does not make the next scan pass
// mail that was read since.
func TestUnreadMailbox(t *testing.T) {
	st := statetest.New()
	play(t, st, "09:00 restored backup.tar made=08:00")
	if c := st.S.Cursor; c.Complete.Format("15:04") != "08:00" || c.Restored == nil {
		t.Errorf("the cursor is %+v", c)
	}
}

// TestScanFromBeforeRestore checks that a scan which began before its step restored the state does not
// count as the one that compares the mailbox.
func TestScanFromBeforeRestore(t *testing.T) {
	for _, scan := range []string{"poll", "poll fails=6 \"corrupt\""} {
		st := statetest.New()
		play(t, st, "08:00 poll")
		play(t, st, "10:00 restored backup.tar made=08:00; mail m1 uid=1; "+scan)
		if s := st.S; s.Cursor.Restored == nil || s.Restore.Over || s.Restore.Told != 0 || !s.Cursor.Complete.Before(s.Restore.At) {
			t.Errorf("%s: cursor %+v, restore %+v", scan, s.Cursor, s.Restore)
		}
		play(t, st, "10:01 poll")
		if s := st.S; s.Cursor.Restored != nil || !s.Restore.Over {
			t.Errorf("%s: after the next scan: cursor %+v, restore %+v", scan, s.Cursor, s.Restore)
		}
	}
}

// TestRestoreWithoutMail checks that an agent without mail tells what it holds at once.
func TestRestoreWithoutMail(t *testing.T) {
	st := statetest.New()
	st.P.HasMail, st.P.Peers = false, []string{"dorlange3120"}
	play(t, st, "08:00 mesh q1 id=q1 correlation=c1; poll")
	play(t, st, "09:00 restored backup.tar made=08:00")
	told := slices.IndexFunc(st.S.Outbox, func(e state.Effect) bool { return e.Text == state.WasRestored })
	if told < 0 || st.S.Cursor.Restored != nil || !st.S.Restore.Over {
		t.Errorf("outbox %+v, restore %+v", st.S.Outbox, st.S.Restore)
	}
}

// TestMovedStateMayNotChange checks which events a moved agent still takes.
func TestMovedStateMayNotChange(t *testing.T) {
	st := statetest.New()
	if !st.S.MayChange() || !st.S.MayChange(state.Polled{}) {
		t.Error("a state that was not moved may not change")
	}
	play(t, st, `08:00 moved other "backup.tar"`)
	for _, e := range everyEvent {
		want := false
		switch e.(type) {
		case state.Restored, state.Unmoved:
			want = true
		}
		if got := st.S.MayChange(e); got != want {
			t.Errorf("%T: %v", e, got)
		}
	}
	if !st.S.MayChange(state.Unscheduled{Removed: true}) || st.S.MayChange() || st.S.MayChange(state.Unmoved{}, state.Polled{}) {
		t.Error("no event, or another one with it")
	}
	var read state.State
	check(t, json.Unmarshal([]byte(statetest.JSON(t, st.S)), &read))
	if read.MayChange() || read.Moved.To != "other" || read.Moved.Archive != "backup.tar" || read.Moved.At.IsZero() {
		t.Errorf("read back: %+v", read.Moved)
	}
}
