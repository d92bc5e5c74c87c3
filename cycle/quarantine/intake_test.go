package quarantine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestKnownItems checks that items that the state knows are neither kept nor counted again.
func TestKnownItems(t *testing.T) {
	for name, c := range map[string]struct {
		state  state.State
		digest string
		want   string
	}{
		"new":                  {want: "[one]"},
		"rejected before":      {state: state.State{Reading: state.Reading{Seen: map[string]int64{"refused one": 1}}}, want: "[]"},
		"accepted since":       {state: state.State{Reading: state.Reading{Seen: map[string]int64{"one": 1}}}, want: "[]"},
		"a copy, by digest":    {state: state.State{Reading: state.Reading{Seen: map[string]int64{"digest:d": 1}}}, digest: "digest:d", want: "[]"},
		"of another digest":    {state: state.State{Reading: state.Reading{Seen: map[string]int64{"digest:d": 1}}}, digest: "digest:e", want: "[one]"},
		"a message that waits": {state: state.State{Received: state.Received{Inbox: []state.Message{{Key: "one"}}}}, want: "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			unkept, err := intake(f, c.state).Keep(verdict("one"), c.digest, 1, strings.NewReader("x"))
			if unkept || err != nil {
				t.Errorf("unkept %v, %v", unkept, err)
			}
			if got := keys(t, f); got != c.want {
				t.Errorf("kept: %s, want %s", got, c.want)
			}
		})
	}
}

// sized are files that keep everything and hold nothing, so that an item can have
// any size.
type sized struct {
	kept, removed []string
	full          string // the end of a name that cannot be kept; "" means none
}

var errFull = errors.New("disk full")

func (s *sized) KeepSummed(name string, r io.Reader) (string, error) {
	return "", s.KeepAmong(name, r)
}
func (s *sized) KeepAmong(name string, _ io.Reader) error {
	if s.full != "" && strings.HasSuffix(name, s.full) {
		return errFull
	}
	s.kept = append(s.kept, name)
	return nil
}
func (s *sized) Remove(name string) error {
	s.removed = append(s.removed, name)
	return nil
}

// rejects is an item, or several of a kind.
type rejects struct {
	n    int // 0 means 1
	from string
	gate string // "" means trust
	mesh bool
	size int64
	late time.Duration // after the first
	want int           // of them kept
}

// TestSenderLimits checks the daily limit of one sender, and which names count as one sender.
func TestSenderLimits(t *testing.T) {
	const known = "op@example.com"
	for name, all := range map[string][]rejects{
		"fifty items":                         {{n: 60, from: known, want: 50}},
		"a first item of any size":            {{from: known, size: senderBytes + 1, want: 1}, {from: known, size: 1, want: 0}},
		"bytes up to the limit":               {{from: known, size: 1, want: 1}, {from: known, size: senderBytes - 1, want: 1}, {from: known, size: 1, want: 0}},
		"one that is too large, then smaller": {{from: known, size: 1, want: 1}, {from: known, size: senderBytes, want: 0}, {from: known, size: 1, want: 1}},
		"room again after a day":              {{n: 50, from: known, want: 50}, {from: known, late: senderSpan - 1, want: 0}, {from: known, late: senderSpan, want: 1}},
		"strangers share":                     {{n: 30, from: "a@x", want: 30}, {n: 30, from: "b@x", want: 20}},
		"known senders do not":                {{n: 50, from: known, want: 50}, {n: 50, from: "bob@example.com", want: 50}, {from: "a@x", want: 1}},
		"each gate counts for itself":         {{n: 50, from: known, want: 50}, {n: 51, from: known, gate: "list", want: 50}},
		"mail and mesh count apart":           {{n: 50, from: "a@x", want: 50}, {n: 51, from: "a@x", mesh: true, want: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			at := now
			files := &sized{}
			in := NewIntake(newFolder(t), files, state.State{}, func() time.Time { return at }, func(_ state.Source, from string) bool {
				return strings.HasSuffix(from, "@example.com")
			})
			n := 0
			for _, r := range all {
				at = now.Add(r.late)
				kept := 0
				for range max(r.n, 1) {
					n++
					v := verdict(fmt.Sprint("k", n))
					v.From = r.from
					if r.gate != "" {
						v.Gate = r.gate
					}
					if r.mesh {
						v.Source = state.Mesh
					}
					unkept, err := in.Keep(v, "", r.size, strings.NewReader(""))
					if err != nil {
						t.Fatal(err)
					}
					if !unkept {
						kept++
					}
				}
				if kept != r.want {
					t.Errorf("%d kept of %+v", kept, r)
				}
			}
			if len(files.removed) != 0 {
				t.Errorf("removed: %q", files.removed)
			}
		})
	}
}

// held returns an intake whose folder holds these items, oldest first.
func held(t *testing.T, s state.State, items ...Item) (*Intake, *sized) {
	t.Helper()
	files := &sized{}
	in := NewIntake(newFolder(t), files, s, func() time.Time { return now }, noneKnown)
	in.loaded, in.items = true, items
	return in, files
}

// old returns n items that a gate rejected days ago.
func old(gate string, n int, size int64) []Item {
	var items []Item
	for i := range n {
		v := verdict(fmt.Sprint(gate, i))
		v.Gate, v.Kept = gate, now.Add(-48*time.Hour)
		items = append(items, Item{Verdict: v, Size: size})
	}
	return items
}

// TestEviction checks which items make room in a full folder.
func TestEviction(t *testing.T) {
	const big = maxBytes / 4
	for name, c := range map[string]struct {
		state state.State
		items []Item
		size  int64 // of the new item
		want  string
	}{
		"there is room":                        {items: old("a", maxItems-1, 1), want: "[]"},
		"too many items: the oldest goes":      {items: old("a", maxItems, 1), want: "[a0]"},
		"the oldest of the largest share":      {items: slices.Concat(old("a", 10, 1), old("b", maxItems-10, 1)), want: "[b0]"},
		"the new item counts for its account":  {items: slices.Concat(old("a", maxItems/2, 1), old("trust", maxItems/2, 1)), want: "[trust0]"},
		"bytes up to the limit":                {items: old("a", 3, big), size: big, want: "[]"},
		"too many bytes":                       {items: old("a", 3, big), size: big + 1, want: "[a0]"},
		"as many as it takes":                  {items: old("a", 4, big), size: 2 * big, want: "[a0 a1]"},
		"bytes are a share, too":               {items: slices.Concat(old("a", 50, 1), old("b", 3, big)), size: big, want: "[b0]"},
		"not what the operator is asked about": {state: state.State{ChallengeQueue: state.ChallengeQueue{Unasked: []string{"a0"}, Challenges: []state.OpenChallenge{{Key: "a1"}}}}, items: old("a", maxItems, 1), want: "[a2]"},
		"unless there is nothing else":         {state: state.State{ChallengeQueue: state.ChallengeQueue{Unasked: []string{"a0", "a1"}}}, items: old("a", 2, 2*big), size: 1, want: "[a0]"},
	} {
		t.Run(name, func(t *testing.T) {
			in, files := held(t, c.state, c.items...)
			if unkept, err := in.Keep(verdict("new"), "", c.size, strings.NewReader("")); unkept || err != nil {
				t.Fatalf("unkept %v, %v", unkept, err)
			}
			gone, dirs := []string{}, []string(nil)
			for _, e := range in.evicted {
				d := e.(state.Discarded)
				gone, dirs = append(gone, d.Key), append(dirs, Dir(d.Key))
				if d.Reason != "quarantine is full" {
					t.Errorf("the reason is %q", d.Reason)
				}
			}
			if got := fmt.Sprint(gone); got != c.want {
				t.Errorf("evicted: %s, want %s", got, c.want)
			}
			if !slices.Equal(files.removed, dirs) {
				t.Errorf("removed %q, and reported %q", files.removed, dirs)
			}
			if len(files.kept) != 2 {
				t.Errorf("files of the new item: %q", files.kept)
			}
		})
	}
}

// TestRestoredMailStays checks that mail which a restore rejected makes room for nothing, and that an item
// without room evicts no other item.
func TestRestoredMailStays(t *testing.T) {
	const big = maxBytes / 4
	restored := func(n int, size int64) []Item { return old(state.GateRestored, n, size) }
	asks := state.State{ChallengeQueue: state.ChallengeQueue{Unasked: []string{"a0"}}}
	for name, c := range map[string]struct {
		state state.State
		items []Item
		gate  string
		size  int64
		kept  bool
		want  string // evicted
	}{
		"another item goes first":               {items: slices.Concat(restored(maxItems-1, 1), old("a", 1, 1)), gate: state.GateRestored, size: 1, kept: true, want: "[a0]"},
		"also one that the operator may answer": {state: asks, items: slices.Concat(restored(maxItems-1, 1), old("a", 1, 1)), gate: state.GateRestored, size: 1, kept: true, want: "[a0]"},
		"no room for one more":                  {items: restored(maxItems, 1), gate: state.GateRestored, size: 1, want: "[]"},
		"no room for mail of another gate":      {items: restored(maxItems, 1), gate: "trust", size: 1, want: "[]"},
		"no room for its bytes":                 {items: slices.Concat(restored(3, big), old("a", 1, 1)), gate: state.GateRestored, size: big + 1, want: "[]"},
		"room for its bytes":                    {items: slices.Concat(restored(3, big), old("a", 1, 1)), gate: state.GateRestored, size: big, kept: true, want: "[a0]"},
	} {
		t.Run(name, func(t *testing.T) {
			in, _ := held(t, c.state, c.items...)
			v := verdict("new")
			v.Gate = c.gate
			unkept, err := in.Keep(v, "", c.size, strings.NewReader(""))
			if err != nil || unkept == c.kept {
				t.Errorf("unkept %v, %v", unkept, err)
			}
			gone := []string{}
			for _, e := range in.evicted {
				gone = append(gone, e.(state.Discarded).Key)
			}
			if got := fmt.Sprint(gone); got != c.want {
				t.Errorf("evicted: %s, want %s", got, c.want)
			}
		})
	}
}

// TestNewItemLargerThanAll checks that an item is not evicted for itself.
func TestNewItemLargerThanAll(t *testing.T) {
	in, files := held(t, state.State{}, old("a", 2, 1)...)
	if unkept, err := in.Keep(verdict("new"), "", maxBytes+1, strings.NewReader("")); unkept || err != nil {
		t.Fatalf("unkept %v, %v", unkept, err)
	}
	if len(files.removed) != 2 || len(in.items) != 1 || in.items[0].Key != "new" {
		t.Errorf("removed %q, left %+v", files.removed, in.items)
	}
}

// TestItemOfDeadPollIsWrittenAgain checks that an item of a poll that died is written again,
// whatever the limits are, and counts once.
func TestItemOfDeadPollIsWrittenAgain(t *testing.T) {
	f := newFolder(t)
	for i := range senderItems {
		keep(t, intake(f, state.State{}), verdict(fmt.Sprint("k", i)), "x")
	}
	in := intake(f, state.State{})
	keep(t, in, verdict("k0"), "again")
	if _, text, err := f.Open("k0"); string(text) != "again" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if unkept, err := try(in, verdict("more"), "x"); !unkept || err != nil {
		t.Errorf("one more than the limit: unkept %v, %v", unkept, err)
	}
	if n, err := f.Count(); n != senderItems || err != nil {
		t.Errorf("%d items, %v", n, err)
	}
}

// TestReleasedLeftovers checks that the folder of an item that was released before a crash is
// removed, and does not count.
func TestReleasedLeftovers(t *testing.T) {
	f := newFolder(t)
	in := intake(f, state.State{})
	keep(t, in, verdict("released"), "x")
	keep(t, in, verdict("other"), "x")
	keep(t, intake(f, state.State{Reading: state.Reading{Seen: map[string]int64{"released": 1}}}), verdict("new"), "x")
	if got := keys(t, f); got != "[new other]" {
		t.Errorf("the items are %s", got)
	}
}

// TestEventCountsItems checks that an observation that rejects an item reports how many
// items there are, and one that rejects nothing reports nothing.
func TestEventCountsItems(t *testing.T) {
	f := newFolder(t)
	in := intake(f, state.State{})
	if events := in.Events(); len(events) != 0 {
		t.Errorf("before anything: %+v", events)
	}
	keep(t, in, verdict("one"), "x")
	keep(t, in, verdict("two"), "x")
	if got, want := in.Events(), []state.Event{state.QuarantineHolds{Items: 2}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestFailingDisk checks that an item of which a file cannot be written is an
// error.
func TestFailingDisk(t *testing.T) {
	for _, file := range []string{mailFile, verdictFile} {
		in, files := held(t, state.State{})
		files.full = file
		if unkept, err := try(in, verdict("one"), "x"); unkept || !errors.Is(err, errFull) {
			t.Errorf("%s: unkept %v, %v", file, unkept, err)
		}
	}
}

// TestUnreadableFolder checks that an item is not kept in a folder that cannot be
// read, because its limits cannot be checked.
func TestUnreadableFolder(t *testing.T) {
	f := newFolder(t)
	if err := os.WriteFile(f.Store.Path("quarantine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	files := &sized{}
	in := NewIntake(f, files, state.State{}, func() time.Time { return now }, noneKnown)
	if _, err := try(in, verdict("one"), "x"); err == nil || len(files.kept) != 0 {
		t.Errorf("kept %q, %v", files.kept, err)
	}
	if _, err := f.Count(); err == nil {
		t.Error("such a folder is counted")
	}
}

// memory are files in memory, as a dry run has them.
type memory map[string][]byte

func (m memory) KeepSummed(name string, r io.Reader) (string, error) {
	return "", m.KeepAmong(name, r)
}
func (m memory) KeepAmong(name string, r io.Reader) (err error) {
	m[name], err = io.ReadAll(r)
	return err
}
func (m memory) Remove(name string) error { delete(m, name); return nil }

// TestMailIn checks that a mail that a dry run has kept in memory is found there,
// and nowhere else.
func TestMailIn(t *testing.T) {
	f, files := newFolder(t), memory{}
	in := NewIntake(f, files, state.State{}, func() time.Time { return now }, noneKnown)
	keep(t, in, verdict("one"), "mail")
	mesh := verdict("two")
	mesh.Source = state.Mesh
	keep(t, in, mesh, "{}")
	i, payload, ok := MailIn(files, "one")
	if !ok || i.Key != "one" || i.Gate != "trust" || !bytes.Equal(payload, []byte("mail")) {
		t.Errorf("%+v, %q, %v", i, payload, ok)
	}
	for _, key := range []string{"two", "three"} {
		if _, _, ok := MailIn(files, key); ok {
			t.Errorf("%s is found", key)
		}
	}
	if got := keys(t, f); got != "[]" {
		t.Errorf("on the disk: %s", got)
	}
}

// TestRoomAfterEviction checks that an item of a sender who was at the limit is kept again
// when another of theirs has made room for somebody else.
func TestRoomAfterEviction(t *testing.T) {
	files := &sized{}
	in := NewIntake(newFolder(t), files, state.State{}, func() time.Time { return now }, noneKnown)
	put := func(key, gate string, size int64) (kept bool) {
		v := verdict(key)
		v.Gate = gate
		unkept, err := in.Keep(v, "", size, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		return !unkept
	}
	for i := range senderItems {
		put(fmt.Sprint("a", i), "a", 1)
	}
	if put("refused", "a", 1) || !put("large", "b", maxBytes-senderItems+1) || len(files.removed) != 1 {
		t.Fatalf("removed %q", files.removed)
	}
	if !put("again", "a", 1) {
		t.Error("the room of the item that was removed is not used")
	}
}
