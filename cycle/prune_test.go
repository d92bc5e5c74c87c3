package cycle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Files older than keep are removed, a hundred a cycle, unless a waiting row references them
// (docs/design.md, "Costs").
func TestPruneKeepsReferencedFiles(t *testing.T) {
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	st := &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}
	a := &Agent{Handle: "goulard3120", Store: st, Keep: 90 * 24 * time.Hour, Now: func() time.Time { return now }}
	put := func(name string, age time.Duration) {
		t.Helper()
		check(t, st.Keep(name, strings.NewReader("x")))
		top := filepath.Join(strings.Split(name, "/")[:2]...)
		check(t, os.Chtimes(st.Path(top), now.Add(-age), now.Add(-age)))
	}
	const old, young = 91 * 24 * time.Hour, 89 * 24 * time.Hour
	put("messages/waits.eml", old)
	put("messages/young.eml", young)
	put("turns/told/1/alive", old)
	put("quarantine/old/message.eml", old)
	for _, dir := range []string{"turns/tactive/1", "turns/tlost/1", "turns/compact/0"} { // of a state that was lost
		check(t, turn.Prepare(st.Path(dir), []turn.File{{Name: "message.txt", Body: strings.NewReader("x")}}, ""))
	}
	t.Cleanup(func() { osfile.MakeWritable(st.Path("turns")) })
	for i := range 150 {
		put("messages/old"+strings.Repeat("x", i)+".eml", old)
	}
	s, err := a.journal().commit(t.Context(), state.Arrived{Message: state.Message{Key: "k", Source: state.Mail, Payload: "messages/waits.eml", At: now}})
	check(t, err)
	s.Turn = state.Head{Status: state.HeadRunning, TurnID: "tactive"}

	count := func() (n int) {
		for _, folder := range []string{"messages", "turns", "quarantine"} {
			entries, err := os.ReadDir(st.Path(folder))
			check(t, err)
			n += len(entries)
		}
		return n
	}
	check(t, os.Chtimes(st.Path("turns/tactive"), now.Add(-old), now.Add(-old)))
	before := count()
	for _, wantGone := range []int{100, 152} {
		if _, err := a.pruner().prune(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if gone := before - count(); gone != wantGone {
			t.Fatalf("%d entries are gone, want %d", gone, wantGone)
		}
	}
	for _, name := range []string{"messages/waits.eml", "messages/young.eml", "turns/tactive/1/context/message.txt"} {
		if _, err := os.Stat(st.Path(name)); err != nil {
			t.Errorf("%s was removed", name)
		}
	}
	for dir, want := range map[string]os.FileMode{"turns/tactive/1": 0o500, "turns/tlost/1": 0o700, "turns/compact/0": 0o700} {
		if info, err := os.Stat(st.Path(dir + "/context")); err != nil || info.Mode().Perm() != want {
			t.Errorf("the context folder of %s: %v, %v; want %v", dir, info, err, want)
		}
	}
	if s, err = st.Read(); err != nil || !s.Pruned.Equal(now) {
		t.Errorf("pruned at %v, %v; want %v", s.Pruned, err, now)
	}
}
