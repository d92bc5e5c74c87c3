package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// mustAudit returns the audit of a history.
func mustAudit(t testing.TB, st *Store) Audit {
	t.Helper()
	a, err := st.Audit()
	check(t, err)
	return a
}

// wantWhole checks that the chain has no break and ends where the state says.
func wantWhole(t testing.TB, st *Store) Audit {
	t.Helper()
	a := mustAudit(t, st)
	if len(a.Breaks) > 0 {
		t.Fatalf("breaks: %v", a.Breaks)
	}
	if head, err := st.Head(); err != nil || head != a.Head {
		t.Fatalf("the state has the head %v, %v, and the history ends in %v", head, err, a.Head)
	}
	return a
}

// threeMonths returns a store whose history has three months, and the heads after each
// commit.
func threeMonths(t *testing.T) (*Store, *statetest.Story, []Head) {
	t.Helper()
	st := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}
	story := statetest.New()
	var heads []Head
	for _, line := range storyLines(`
day 2026-01-31
09:00 halt
10:00 go
11:00 halt "why not"
day 2026-02-10
09:00 go
10:00 mail m1 op
11:00 halt
day 2026-03-01
09:00 go
10:00 mail m2 op
11:00 halt`) {
		if strings.HasPrefix(line, "day") {
			mustRead(t, story, line)
			continue
		}
		check(t, commitLine(st, story, line))
		heads = append(heads, wantWhole(t, st).Head)
	}
	return st, story, heads
}

const (
	january  = "history-2026-01.jsonl"
	february = "history-2026-02.jsonl"
	march    = "history-2026-03.jsonl"
)

// edit rewrites the lines of a file.
func edit(t *testing.T, st *Store, name string, change func(lines []string) []string) {
	t.Helper()
	data, err := os.ReadFile(st.path(name))
	check(t, err)
	lines := change(slices.Collect(strings.Lines(string(data))))
	check(t, os.WriteFile(st.path(name), []byte(strings.Join(lines, "")), 0o600))
}

// TestAuditFindsChanges changes a history in many ways, each of which must be found, with the file
// and the line.
func TestAuditFindsChanges(t *testing.T) {
	replace := func(name string, at int, old, new string) func(*testing.T, *Store) {
		return func(t *testing.T, st *Store) {
			edit(t, st, name, func(l []string) []string {
				changed := strings.Replace(l[at], old, new, 1)
				if changed == l[at] {
					t.Fatalf("%q is not in %s", old, l[at])
				}
				l[at] = changed
				return l
			})
		}
	}
	lines := func(name string, change func(l []string) []string) func(*testing.T, *Store) {
		return func(t *testing.T, st *Store) { edit(t, st, name, change) }
	}
	for name, c := range map[string]struct {
		attack func(*testing.T, *Store)
		want   string // of a break
	}{
		"a word changed":                {replace(january, 2, "why not", "because"), january + ", line 3: " + breakChanged},
		"the first line changed":        {replace(january, 0, "serial", "Serial"), january + ", line 1: " + breakOlder},
		"a time changed":                {replace(february, 1, "T10:00", "T10:01"), february + ", line 2: " + breakChanged},
		"a sum changed":                 {replace(february, 1, `"sum":"`, `"sum":"0`), february + ", line 2: " + breakNoSum},
		"another sum":                   {replace(february, 1, `"sum":"`, `"sum":"`+strings.Repeat("0", sumLen)+`","sun":"`), february + ", line 2: " + breakNoSum},
		"white space added":             {replace(march, 1, ",", ", "), march + ", line 2: " + breakChanged},
		"a field added":                 {replace(march, 1, `,"sum"`, `,"what":"x","sum"`), march + ", line 2: " + breakChanged},
		"a key doubled":                 {replace(march, 1, `"kind"`, `"kind":"note","kind"`), march + ", line 2: " + breakChanged},
		"a line made unreadable":        {replace(march, 0, "{", "#"), march + ", line 2: " + breakChanged},
		"a line removed":                {lines(february, func(l []string) []string { return slices.Delete(l, 1, 2) }), february + ", line 2: " + breakChanged},
		"the first line removed":        {lines(january, func(l []string) []string { return l[1:] }), january + ", line 1: " + breakOlder},
		"the first line of a month":     {lines(march, func(l []string) []string { return l[1:] }), march + ", line 1: " + breakChanged},
		"the last line of a month":      {lines(february, func(l []string) []string { return l[:len(l)-1] }), march + ", line 1: " + breakChanged},
		"a line copied":                 {lines(february, func(l []string) []string { return slices.Insert(l, 1, l[0]) }), february + ", line 2: " + breakOrder},
		"two lines exchanged":           {lines(february, func(l []string) []string { l[0], l[1] = l[1], l[0]; return l }), february + ", line 2: " + breakOrder},
		"a line without a sum added":    {lines(february, func(l []string) []string { return slices.Insert(l, 1, `{"serial":6,"n":9,"kind":"halt"}`+"\n") }), february + ", line 2: " + breakNoSum},
		"one in place of another":       {lines(february, func(l []string) []string { l[1] = `{"serial":6,"n":0,"kind":"halt"}` + "\n"; return l }), february + ", line 2: " + breakNoSum},
		"one of an old serial":          {lines(march, func(l []string) []string { return append(l, `{"serial":1,"n":9,"kind":"halt"}`+"\n") }), march + ", line "},
		"one before the first":          {lines(january, func(l []string) []string { return slices.Insert(l, 0, `{"serial":0,"n":9,"kind":"halt"}`+"\n") }), january + ", line 2: " + breakOlder},
		"a sum cut off":                 {lines(february, func(l []string) []string { l[1] = l[1][:strings.Index(l[1], `,"sum"`)] + "}\n"; return l }), february + ", line 2: " + breakNoSum},
		"all sums of a month cut off":   {func(t *testing.T, st *Store) { cutSums(t, st, february) }, january + ", line 1: " + breakOlder},
		"all sums cut off":              {func(t *testing.T, st *Store) { cutSums(t, st, january, february, march) }, march + ", line 5: " + breakMissing},
		"lines at the end removed":      {lines(march, func(l []string) []string { return l[:2] }), march + ", line 2: " + breakMissing},
		"all lines of the last month":   {lines(march, func([]string) []string { return nil }), february + ", line "},
		"the first month removed":       {func(t *testing.T, st *Store) { remove(t, st, january) }, february + ", line 1: " + breakOlder},
		"a month in the middle removed": {func(t *testing.T, st *Store) { remove(t, st, february) }, march + ", line 1: " + breakChanged},
		"the last month removed":        {func(t *testing.T, st *Store) { remove(t, st, march) }, february + ", line "},
		"all months removed":            {func(t *testing.T, st *Store) { remove(t, st, january); remove(t, st, february); remove(t, st, march) }, "history: " + breakMissing},
		"a month under another name":    {func(t *testing.T, st *Store) { rename(t, st, february, "history-2026-04.jsonl") }, "history-2026-04.jsonl, line 1: " + breakOrder},
		"two months exchanged": {func(t *testing.T, st *Store) {
			rename(t, st, january, "x")
			rename(t, st, february, january)
			rename(t, st, "x", february)
		}, february + ", line 1: " + breakOrder},
		"a month in two files": {func(t *testing.T, st *Store) { split(t, st) }, "history-2026-04.jsonl, line 1: " + breakOrder},
		"a month that never was": {func(t *testing.T, st *Store) {
			put(t, st, "history-2020-01.jsonl", `{"serial":1,"n":0,"kind":"halt"}`+"\n")
		}, january + ", line 1: " + breakOlder},
		"a line moved to another month":   {func(t *testing.T, st *Store) { move(t, st) }, march + ", line 1: " + breakOrder},
		"the state of an older serial":    {func(t *testing.T, st *Store) { edit(t, st, march, func(l []string) []string { return l[:1] }) }, march + ", line 1: " + breakMissing},
		"a chain begun again at the end":  {lines(march, func(l []string) []string { return reseal(t, "", l) }), march + ", line 1: " + breakChanged},
		"a month sealed again":            {lines(february, func(l []string) []string { l[0] = strings.Replace(l[0], "T09", "T08", 1); return reseal(t, "", l) }), february + ", line 1: " + breakChanged},
		"lines of another agent's months": {lines(march, func(l []string) []string { return append(l, l[len(l)-1]) }), march + ", line "},
	} {
		t.Run(name, func(t *testing.T) {
			st, story, _ := threeMonths(t)
			c.attack(t, st)
			a := mustAudit(t, st)
			if !slices.ContainsFunc(a.Breaks, func(b Break) bool { return strings.HasPrefix(b.String(), c.want) }) {
				t.Fatalf("breaks %v, want %q", a.Breaks, c.want)
			}
			// Later commits do not hide it.
			for _, line := range []string{"12:00 go", "12:01 halt"} {
				check(t, commitLine(st, story, line))
			}
			if a := mustAudit(t, st); len(a.Breaks) == 0 {
				t.Error("two commits later nothing is found")
			}
		})
	}
}

func rename(t *testing.T, st *Store, from, to string) {
	t.Helper()
	check(t, os.Rename(st.path(from), st.path(to)))
}

// cutSums removes the sums from files.
func cutSums(t *testing.T, st *Store, names ...string) {
	t.Helper()
	for _, name := range names {
		edit(t, st, name, func(lines []string) []string {
			for i, l := range lines {
				covered, _, _ := splitSum([]byte(l))
				lines[i] = string(covered) + "}\n"
			}
			return lines
		})
	}
}

// split moves the end of February to April.
func split(t *testing.T, st *Store) {
	t.Helper()
	edit(t, st, february, func(l []string) []string {
		put(t, st, "history-2026-04.jsonl", strings.Join(l[1:], ""))
		return l[:1]
	})
}

// move moves the last line of February to the beginning of March.
func move(t *testing.T, st *Store) {
	t.Helper()
	var last string
	edit(t, st, february, func(l []string) []string { last = l[len(l)-1]; return l[:len(l)-1] })
	edit(t, st, march, func(l []string) []string { return slices.Insert(l, 0, last) })
}

// reseal returns lines with sums that fit each other, after before.
func reseal(t *testing.T, before string, lines []string) []string {
	t.Helper()
	var out []string
	for _, raw := range lines {
		l, ok := parseLine([]byte(raw))
		if !ok {
			t.Fatalf("not a line: %s", raw)
		}
		sealed, err := seal(before, []state.Line{l})
		check(t, err)
		out, before = append(out, string(sealed[0].data)), sealed[0].sum
	}
	return out
}

// TestAuditAcceptsOrdinaryHistories checks what must not alarm anybody.
func TestAuditAcceptsOrdinaryHistories(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, st *Store, story *statetest.Story){
		"nothing":          func(*testing.T, *Store, *statetest.Story) {},
		"a torn line":      func(t *testing.T, st *Store, _ *statetest.Story) { tear(t, st.path(march)) },
		"a note":           func(t *testing.T, st *Store, _ *statetest.Story) { add(t, st.path(march), "# looked at by hand\n\n\n") },
		"JSON of others":   func(t *testing.T, st *Store, _ *statetest.Story) { add(t, st.path(march), `{"level":"info"}`+"\n") },
		"a lost state":     func(t *testing.T, st *Store, _ *statetest.Story) { put(t, st, stateFile, "") },
		"a missing state":  func(t *testing.T, st *Store, _ *statetest.Story) { remove(t, st, stateFile) },
		"a lost copy, too": func(t *testing.T, st *Store, _ *statetest.Story) { put(t, st, stateFile, ""); put(t, st, prevFile, "") },
		"the last commit's lines, which the state has": func(t *testing.T, st *Store, _ *statetest.Story) {
			edit(t, st, march, func(l []string) []string { return l[:len(l)-len(mustState(t, st).Lines)] })
		},
		"a clock set back over the end of a month": func(t *testing.T, st *Store, story *statetest.Story) {
			for _, line := range []string{"day 2026-02-28", "23:00 go", "23:01 halt"} {
				if strings.HasPrefix(line, "day") {
					mustRead(t, story, line)
				} else if err := commitLine(st, story, line); err != nil {
					t.Fatal(err)
				}
			}
			mustRead(t, story, "day 2026-03-02")
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, story, heads := threeMonths(t)
			do(t, st, story)
			for i, line := range []string{"", "12:00 go", "12:01 halt"} {
				if line != "" {
					check(t, commitLine(st, story, line))
				}
				a := mustAudit(t, st)
				if len(a.Breaks) > 0 {
					t.Fatalf("after %d commits: breaks %v", i, a.Breaks)
				}
				for _, head := range heads {
					if err := a.Holds(head); err != nil {
						t.Errorf("after %d commits: %v is not held: %v", i, head, err)
					}
				}
			}
			wantWhole(t, st)
		})
	}
}

// TestRewrittenHistoryIsFound rewrites the whole history, sums and state included: only what a mail
// has named finds that.
func TestRewrittenHistoryIsFound(t *testing.T) {
	st, story, heads := threeMonths(t)
	a := wantWhole(t, st)
	for _, wrong := range []Head{{}, {Serial: heads[0].Serial, Sum: strings.Repeat("0", sumLen)}, {Serial: 1 << 40, Sum: heads[0].Sum}} {
		if a.Holds(wrong) == nil {
			t.Errorf("%v is held", wrong)
		}
	}
	var all []string
	for _, name := range []string{january, february, march} {
		edit(t, st, name, func(l []string) []string { all = append(all, l...); return nil })
		remove(t, st, name)
	}
	at := slices.IndexFunc(all, func(l string) bool { return strings.Contains(l, "2026-02-10T09:00") })
	all[at] = strings.Replace(all[at], `"from":"here"`, `"from":"mesh"`, 1)
	genesis, err := st.genesis()
	check(t, err)
	before := genesis
	var last chain
	for _, raw := range reseal(t, genesis, all) {
		l, _ := parseLine([]byte(raw))
		_, sum, _ := splitSum([]byte(raw))
		if l.N == 0 {
			last.Before = before
		}
		last.Serial, last.Sum, before = l.Serial, sum, sum
		name := st.path(historyName(l.At))
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		check(t, err)
		if _, err := f.WriteString(raw); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	check(t, st.write(stored{State: mustState(t, st), Chain: last}))
	a = wantWhole(t, st) // the forgery is consistent
	changed := uint64(4) // the serial of the changed line
	for _, head := range heads {
		if err := a.Holds(head); (err == nil) != (head.Serial < changed) {
			t.Errorf("head %v: %v", head, err)
		}
	}
	check(t, commitLine(st, story, "12:00 go"))
	wantWhole(t, st)
}

// TestChainAfterOlderHistory begins a chain over a history that an older program wrote,
// the state of which still has lines to append.
func TestChainAfterOlderHistory(t *testing.T) {
	for _, missing := range []int{0, 1} {
		st, story, _ := threeMonths(t)
		cutSums(t, st, january, february, march)
		check(t, st.write(stored{State: mustState(t, st)}))
		edit(t, st, march, func(l []string) []string { return l[:len(l)-missing] })
		before, err := st.allLines()
		check(t, err)
		if a := wantWhole(t, st); a.Lines != 0 {
			t.Errorf("%d lines have a sum", a.Lines)
		}
		check(t, commitLine(st, story, "12:00 go"))
		a := wantWhole(t, st)
		if a.Lines != len(story.S.Lines) {
			t.Errorf("%d lines have a sum, want %d", a.Lines, len(story.S.Lines))
		}
		if after, err := st.allLines(); err != nil || len(after) != len(before)+missing+len(story.S.Lines) {
			t.Errorf("%d lines, %v, after %d", len(after), err, len(before))
		}
		for _, name := range []string{january, february, march} {
			edit(t, st, name, func(l []string) []string { l[0] = strings.Replace(l[0], "kind", "Kind", 1); return l })
			if a := mustAudit(t, st); len(a.Breaks) != 1 || a.Breaks[0].What != breakOlder || a.Holds(a.Head) == nil {
				t.Errorf("%s: %v", name, a.Breaks)
			}
			edit(t, st, name, func(l []string) []string { l[0] = strings.Replace(l[0], "Kind", "kind", 1); return l })
		}
		wantWhole(t, st)
	}
}

// TestChainAfterAnyCrash crashes at every step of two commits: the chain must hold at
// once, and after the next commit.
func TestChainAfterAnyCrash(t *testing.T) {
	crash := errors.New("crash")
	for _, bad := range []bool{false, true} { // with an answer in invalid UTF-8
		for at := 0; ; at++ {
			st, story := startedStore(t)
			steps := 0
			st.Hook = func(string, string) error {
				if steps++; steps > at {
					return crash
				}
				return nil
			}
			line := `09:40 go`
			if bad {
				line = "09:40 transition ACTIVE \"half \xff\xfe\""
			}
			err := commitLine(st, story, line)
			again := &Store{Dir: st.Dir, Agent: st.Agent}
			if a := mustAudit(t, again); len(a.Breaks) > 0 {
				t.Fatalf("crash at step %d: %v", at, a.Breaks)
			}
			story.S = mustState(t, again)
			check(t, commitLine(again, story, "09:41 poll"))
			check(t, commitLine(again, story, "09:42 halt"))
			wantWhole(t, again)
			if err == nil {
				break
			}
		}
	}
}

// TestParseHeads reads what String returns, and nothing else.
func TestParseHeads(t *testing.T) {
	sum := strings.Repeat("0123456789", 4)
	for _, h := range []Head{{1, sum}, {1<<64 - 1, sum}} {
		if got, ok := ParseHead(h.String()); !ok || got != h {
			t.Errorf("%v became %v, %v", h, got, ok)
		}
	}
	for _, s := range []string{"", ".", "1", "1.", "." + sum, "1." + sum[1:], "1." + sum + "0", "01." + sum, "+1." + sum, "-1." + sum, "1.." + sum, "1." + strings.ToUpper("ab"+sum[2:]), " 1." + sum, "99999999999999999999." + sum} {
		if h, ok := ParseHead(s); ok {
			t.Errorf("%q is read as %v", s, h)
		}
	}
}

// FuzzAudit writes arbitrary bytes into the history. The audit must read them, and find every
// change that a reader of the history would see.
func FuzzAudit(f *testing.F) {
	st := &Store{Dir: filepath.Join(f.TempDir(), "agent"), Agent: "goulard3120"}
	story := statetest.New()
	for _, line := range storyLines(crashStory) {
		check(f, commitLine(st, story, line))
	}
	name := st.path(historyName(story.Now))
	data, err := os.ReadFile(name)
	check(f, err)
	whole, err := st.allLines()
	check(f, err)
	f.Add(0, 0, []byte{})
	f.Add(10, 3, []byte("x"))
	f.Add(len(data)-2, 1, []byte(`","sum":"`))
	f.Add(0, len(data), []byte(`{"serial":1,"n":0,"kind":"halt","sum":"0123456789012345678901234567890123456789"}`+"\n"))
	f.Fuzz(func(t *testing.T, at, drop int, insert []byte) {
		at = min(max(0, at), len(data))
		drop = min(max(0, drop), len(data)-at)
		changed := slices.Concat(data[:at], insert, data[at+drop:])
		check(t, os.WriteFile(name, changed, 0o600))
		a := mustAudit(t, st)
		var seen []state.Line
		for l, err := range st.History() {
			check(t, err)
			seen = append(seen, l)
		}
		if statetest.JSON(t, seen) != statetest.JSON(t, whole) && len(a.Breaks) == 0 {
			t.Errorf("%q became %q, and nothing is found", data, changed)
		}
		if bytes.Equal(changed, data) && len(a.Breaks) > 0 {
			t.Errorf("breaks of an unchanged history: %v", a.Breaks)
		}
	})
}

// BenchmarkSeal measures the cost of the sums in a commit of five lines.
func BenchmarkSeal(b *testing.B) {
	var lines []state.Line
	for i := range 5 {
		lines = append(lines, state.Line{Serial: 7, N: i, At: benchNow, Kind: state.LineTransition, Old: state.IDLE, New: state.PREP, Reason: "operator message"})
	}
	for b.Loop() {
		if _, err := seal(strings.Repeat("0", sumLen), lines); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAudit measures the audit of a history of 100,000 lines.
func BenchmarkAudit(b *testing.B) {
	st := &Store{Dir: b.TempDir(), Agent: "goulard3120"}
	var lines []state.Line
	for i := range 100_000 {
		lines = append(lines, state.Line{Serial: uint64(i + 1), Last: true, At: benchNow.Add(time.Duration(i) * time.Millisecond), Kind: state.LineTransition, Old: state.IDLE, New: state.PREP, Reason: fmt.Sprint("operator message ", i)})
	}
	genesis, err := st.genesis()
	check(b, err)
	sealed, err := seal(genesis, lines)
	check(b, err)
	check(b, st.appendSealed(sealed))
	for b.Loop() {
		if a := mustAudit(b, st); len(a.Breaks) > 0 {
			b.Fatal(a.Breaks[0])
		}
	}
}
