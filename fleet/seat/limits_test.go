package seat

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/internal/testkit/memfleet"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// TestLimits tries each limit of the seat at its edge. The times are those of a lease of 150 s.
func TestLimits(t *testing.T) {
	const end = 1000 * time.Second
	x := func(n int64) []byte { return bytes.Repeat([]byte("x"), int(n)) }
	limittest.Run(t, []limittest.Limit{
		// F1: an effect begins 15 s before the end at the latest, and has ended 10 s before it.
		limittest.Duration("beginMargin", 985*time.Second-1, 1, func(_ *testing.T, now time.Duration) bool { return mayBegin(now, end) }),
		limittest.Duration("quiet", 990*time.Second, 1, func(_ *testing.T, now time.Duration) bool { return now <= effectsEnd(end) }),
		// F2, F3: 5 s before the end the agent is killed.
		limittest.Duration("killMargin", 995*time.Second-1, 1, func(_ *testing.T, now time.Duration) bool { return !mustKill(now, end) }),
		limittest.Duration("DefaultLease", 150*time.Second, 1, func(_ *testing.T, d time.Duration) bool { return d <= DefaultLease }),
		limittest.Duration("MinLease", 30*time.Second, 1, func(_ *testing.T, d time.Duration) bool { return d <= MinLease }),
		limittest.Duration("within", 5*time.Second, time.Second, func(t *testing.T, d time.Duration) bool { return answeredAfter(t, d) }),
		{Const: "maxHead", Max: maxBody(t), Within: func(_ *testing.T, n int64) bool { return fits(n) }},
		{Const: "maxIDKey", Max: 4 << 10, Within: func(t *testing.T, n int64) bool {
			s := newWorld(t).host("alpha")
			check(t, os.MkdirAll(s.Store.Dir, 0o700))
			check(t, os.WriteFile(s.Store.Path(store.IDKeyFile), x(n), 0o600))
			return s.sealIDKey(t.Context(), new(envelope)) == nil
		}},
		{Const: "maxPast", Max: 400, Within: func(_ *testing.T, n int64) bool { return len(newest(make([]localFile, n))) == int(n) }},
		{Const: "maxPastBytes", Max: 32 << 20, Within: func(_ *testing.T, n int64) bool {
			return len(newest([]localFile{{file: file{Size: 1 << 20}}, {file: file{Size: n - 1<<20}}})) == 2
		}},
		{Const: "maxBlock", Max: 512 << 10, Within: func(_ *testing.T, n int64) bool { return fitting([][]byte{x(1), x(n - 1)}) == 2 }},
		{Const: "maxOffers", Max: 8, Within: remembersOffers},
		{Const: "maxRecord", Max: 16 << 20, Within: func(t *testing.T, n int64) bool {
			s := newWorld(t).host("alpha")
			check(t, os.MkdirAll(s.Store.Dir, 0o700))
			text := `{"version":1,"host":"`
			check(t, os.WriteFile(s.Store.Path(RecordFile), []byte(text+strings.Repeat("x", int(n)-len(text)-2)+`"}`), 0o600))
			_, err := s.read()
			return err == nil
		}},
		{Const: "recordVersion", Max: 1, Within: func(t *testing.T, n int64) bool {
			s := newWorld(t).host("alpha")
			check(t, os.MkdirAll(s.Store.Dir, 0o700))
			check(t, os.WriteFile(s.Store.Path(RecordFile), fmt.Appendf(nil, `{"version":%d}`, n), 0o600))
			_, err := s.read()
			return err == nil
		}},
		{Const: "headVersion", Max: 1, Within: func(_ *testing.T, n int64) bool {
			_, err := decode(fmt.Appendf(nil, "{\"v\":%d}\n", n))
			return err == nil
		}},
	})
}

// answeredAfter reports whether a commit succeeds whose answers are lost for a time.
func answeredAfter(t *testing.T, d time.Duration) bool {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	begun := w.now
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "OfferHead" && w.now-begun < d {
			return memfleet.ErrLost
		}
		return do()
	}
	return w.arrive(alpha, "cli:one") == nil
}

// noise returns bytes that do not compress.
func noise(n int64) []byte {
	data, x := make([]byte, n), uint64(88172645463325252)
	for i := range data {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		data[i] = byte(x)
	}
	return data
}

func fits(n int64) bool {
	_, err := envelope{state: noise(n)}.encode()
	return err == nil
}

// maxBody returns the largest state of noise that fits into a head. The limit is on the compressed
// head, so its edge is a little below it.
func maxBody(t *testing.T) (n int64) {
	t.Helper()
	for n = 1<<20 - 8<<10; !fits(n); n-- {
	}
	if n < 1<<20-9<<10 {
		t.Errorf("a state of %d bytes does not fit into a head", n+1)
	}
	return n
}

// remembersOffers reports whether a host recognises its offer after n-1 further ones.
func remembersOffers(t *testing.T, n int64) bool {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	var first func() error
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name != "OfferHead" {
			return do()
		}
		if first == nil {
			first = do
		}
		return memfleet.ErrLost
	}
	for i := range n {
		if err := w.arrive(alpha, fmt.Sprint("cli:", i)); err == nil {
			t.Fatal("a commit without an answer succeeded")
		}
	}
	w.server.Hook = nil
	check(t, first())
	_, err := alpha.Store.Commit(t.Context(), w.wall(), func(st state.State, _ store.Recovery) (state.State, error) { return st, nil })
	return err == nil
}

// TestTheRulesHold compares a holder and a contender whose clocks differ by half a percent: the
// holder has stopped before the contender begins (docs/protocol.md, "The seat").
func TestTheRulesHold(t *testing.T) {
	const rate = 0.005
	for _, lease := range []time.Duration{MinLease, DefaultLease, time.Hour} {
		killed := float64(lease-killMargin) * (1 + rate) // its clock is slow
		taken := float64(lapseAfter(lease)) * (1 - rate) // its clock is fast; it saw the beat when it was sent
		if taken-killed < float64(time.Second) {
			t.Errorf("lease %v: the agent is killed after %v, the seat is taken after %v", lease, time.Duration(killed), time.Duration(taken))
		}
		if polls := lease / pollEvery(lease); polls != 2 {
			t.Errorf("lease %v: %d polls in a lease", lease, polls)
		}
		if beatEvery(lease) > (lease-quiet-beginMargin)/2 {
			t.Errorf("lease %v: a runner that misses one beat loses its agent", lease)
		}
	}
	if worst := time.Minute + lapseAfter(DefaultLease) + 29*time.Second; worst > 250*time.Second {
		t.Errorf("a takeover may last %v", worst) // cron looks each minute: 60 s until the last beat is seen, then the wait, rounded up to the next minute
	}
}
