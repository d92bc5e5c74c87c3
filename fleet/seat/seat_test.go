package seat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/memfleet"
	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

func TestMain(m *testing.M) {
	if err := testkit.InMemory(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const handle = "goulard3120"

var (
	_ Engine        = (*fleet.Conn)(nil)
	_ Engine        = (*memfleet.Client)(nil)
	_ store.Arbiter = (*Seat)(nil)
)

// world is a fleet of hosts that share one true time.
type world struct {
	t      *testing.T
	server *memfleet.Server
	now    time.Duration
	ids    int
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Hour}
	w.server = &memfleet.Server{Now: w.wall}
	return w
}

func (w *world) wall() time.Time {
	return time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC).Add(w.now)
}

// host returns a new host with an empty directory.
func (w *world) host(name string) *Seat { return w.hostAt(name, filepath.Join(w.t.TempDir(), "agent")) }

func (w *world) hostAt(name, dir string) *Seat {
	s := &Seat{
		Handle: handle, Host: name, Program: "v1", Lease: DefaultLease, Auto: true, Store: &store.Store{Dir: dir, Agent: handle},
		Engine: w.server.Host(name),
		Names: func(st state.State) (names []string) {
			for _, m := range st.Inbox {
				names = append(names, m.Payload)
			}
			return append(names, store.MemoryDir, store.MemoryFile)
		},
		Clock: func() (string, time.Duration, error) { return "boot", w.now, nil },
		Now:   w.wall,
		NewID: func() string { w.ids++; return fmt.Sprint("id", w.ids) },
		Pause: func(ctx context.Context, d time.Duration) error { w.now += d; return ctx.Err() },
	}
	s.Store.Arbiter = s
	return s
}

// arrive commits one message with a payload.
func (w *world) arrive(s *Seat, key string) error { return w.arriveAt(s, key, w.wall()) }

func (w *world) arriveAt(s *Seat, key string, at time.Time) error {
	name := store.PayloadName(store.MessagesDir, key, ".json")
	sum, err := s.Store.KeepSummed(name, strings.NewReader("payload of "+key))
	if err != nil {
		return err
	}
	_, err = s.Store.Commit(w.t.Context(), at, func(st state.State, _ store.Recovery) (state.State, error) {
		msg := state.Message{Key: key, Source: state.CLI, From: "you", Operator: true, Payload: name, Sum: sum}
		return state.Step(st, []state.Event{state.Arrived{Message: msg}}, statetest.Policy(), at), nil
	})
	return err
}

// keys returns the keys of the inbox of a host's directory.
func keys(t *testing.T, s *Seat) (all []string) {
	t.Helper()
	st, err := s.Store.Read()
	check(t, err)
	for _, m := range st.Inbox {
		all = append(all, m.Key)
	}
	return all
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantStandby checks the error of a host that does not act.
func wantStandby(t *testing.T, err error, holder string) {
	t.Helper()
	if e, ok := errors.AsType[*StandbyError](err); !ok || e.Holder != holder {
		t.Fatalf("error %v, want a standby of %s", err, holder)
	}
}

// wantTrouble checks the error of a host that stops.
func wantTrouble(t *testing.T, err error, why Trouble) {
	t.Helper()
	if e, ok := errors.AsType[*TroubleError](err); !ok || e.Trouble != why {
		t.Fatalf("error %v, want the trouble %q", err, why)
	}
}

// join joins a host.
func (w *world) join(s *Seat) Joined {
	w.t.Helper()
	j, err := s.Join(w.t.Context(), false)
	check(w.t, err)
	return j
}

// TestASecondHostTakesOver plays the life of a fleet: the holder works, dies, and the standby goes on
// with the whole state, the history and the files.
func TestASecondHostTakesOver(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	wantTrouble(t, beta.Look(t.Context()), NotJoined)
	if j := w.join(alpha); !j.Made || j.Holder != "alpha" || j.Term != 1 {
		t.Fatalf("joined: %+v", j)
	}
	check(t, w.arrive(alpha, "cli:one"))
	check(t, alpha.Store.KeepMemory(state.Principal("operator"), "a memory"))
	check(t, w.arrive(alpha, "cli:two"))
	if j := w.join(beta); j.Made || j.Holder != "alpha" {
		t.Fatalf("joined: %+v", j)
	}
	wantStandby(t, w.arrive(beta, "cli:wrong"), "alpha")
	for range 3 {
		w.now += time.Minute
		check(t, alpha.Look(t.Context()))
		wantStandby(t, beta.Look(t.Context()), "alpha")
	}
	check(t, w.arrive(alpha, "cli:three"))
	wantStandby(t, beta.Look(t.Context()), "alpha")
	if got := keys(t, beta); len(got) != 3 {
		t.Fatalf("the standby has %v", got)
	}
	begun := w.now
	for {
		w.now += time.Minute
		err := beta.Look(t.Context())
		if err == nil {
			break
		}
		wantStandby(t, err, "alpha")
		if w.now-begun > 250*time.Second {
			t.Fatal("beta did not take over within 4 min 10 s")
		}
	}
	if w.now-begun < DefaultLease {
		t.Errorf("beta took over after %v, before the lease of alpha was over", w.now-begun)
	}
	check(t, w.arrive(beta, "cli:four"))
	if got := keys(t, beta); len(got) != 4 {
		t.Errorf("beta has %v", got)
	}
	for _, name := range []string{"cli:one", "cli:three"} {
		data, err := beta.Store.ReadFile(store.PayloadName(store.MessagesDir, name, ".json"), 1<<20)
		if err != nil || !bytes.Equal(data, []byte("payload of "+name)) {
			t.Errorf("payload of %s: %q, %v", name, data, err)
		}
	}
	if memory, err := beta.Store.Memory(state.Principal("operator")); err != nil || memory != "a memory" {
		t.Errorf("memory %q, %v", memory, err)
	}
	alphaKey, err := alpha.Store.ReadIDKey()
	check(t, err)
	if betaKey, err := beta.Store.ReadIDKey(); err != nil || !bytes.Equal(alphaKey.Secret, betaKey.Secret) {
		t.Errorf("the hosts have different keys for Message-IDs: %v", err)
	}
	// Alpha comes back: its commit is refused, and it becomes a standby.
	wantStandby(t, w.arrive(alpha, "cli:late"), "beta")
	if _, err := alpha.MayBegin(); err == nil {
		t.Error("alpha may begin an effect without the seat")
	}
	wantStandby(t, alpha.Look(t.Context()), "beta")
	for _, s := range []*Seat{alpha, beta} {
		a, err := s.Store.Audit()
		check(t, err)
		if len(a.Breaks) > 0 {
			t.Errorf("%s: the history has breaks: %v", s.Host, a.Breaks)
		}
		if got := keys(t, s); len(got) != 4 {
			t.Errorf("%s has %v", s.Host, got)
		}
	}
}

// TestLostAnswers loses answers, requests, and delivers requests late. Each commit counts once, or
// not at all.
func TestLostAnswers(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	n := 0
	var late []func() error
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name != "OfferHead" {
			return do()
		}
		n++
		switch n % 5 {
		case 1: // the answer is lost
			if err := do(); err != nil {
				return err
			}
			return memfleet.ErrLost
		case 2: // the request is lost
			return memfleet.ErrLost
		case 3: // the request comes late, with the next one
			late = append(late, do)
			return memfleet.ErrLost
		}
		for _, do := range late {
			_ = do() // its answer goes to a process that is gone
		}
		late = nil
		return do()
	}
	want := 0
	for i := range 40 {
		err := w.arrive(alpha, fmt.Sprint("cli:", i))
		switch {
		case err == nil:
			want++
		case !errors.Is(err, ErrUnsure):
			t.Fatal(err)
		}
	}
	got := map[string]int{}
	check(t, alpha.Look(t.Context()))
	for _, key := range keys(t, alpha) {
		got[key]++
	}
	for key, times := range got {
		if times != 1 {
			t.Errorf("%s is there %d times", key, times)
		}
	}
	if len(got) < want {
		t.Errorf("%d messages, %d commits succeeded", len(got), want)
	}
}

// TestAProcessDiesInTheCommit kills the process between each two steps of a commit. The next one
// finds out what was accepted.
func TestAProcessDiesInTheCommit(t *testing.T) {
	errKilled := errors.New("killed")
	for step := 1; ; step++ {
		w := newWorld(t)
		alpha := w.host("alpha")
		w.join(alpha)
		check(t, w.arrive(alpha, "cli:before"))
		n := 0
		alpha.Store.Hook = func(string, string) error {
			if n++; n >= step {
				return errKilled
			}
			return nil
		}
		err := w.arrive(alpha, "cli:killed")
		killed := n >= step
		alpha.Store.Hook = nil
		again := w.hostAt("alpha", alpha.Store.Dir) // another process
		check(t, again.Look(t.Context()))
		check(t, w.arrive(again, "cli:after"))
		want := []string{"cli:before", "cli:after"}
		if got := keys(t, again); len(got) == 3 {
			want = []string{"cli:before", "cli:killed", "cli:after"}
		}
		if got := keys(t, again); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("killed at step %d (%v): the inbox has %v", step, err, got)
		}
		a, err := again.Store.Audit()
		check(t, err)
		if len(a.Breaks) > 0 {
			t.Fatalf("killed at step %d: the history has breaks: %v", step, a.Breaks)
		}
		if !killed {
			if step < 10 {
				t.Errorf("a commit has only %d steps", step)
			}
			return
		}
	}
}

// TestCopies starts a copy of the directory, and an old one.
func TestCopies(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	check(t, w.arrive(alpha, "cli:one"))
	old := copyDir(t, alpha.Store.Dir)
	check(t, w.arrive(alpha, "cli:two"))
	whole := copyDir(t, alpha.Store.Dir)
	for name, dir := range map[string]string{"old": old, "whole": whole} {
		for _, host := range []string{"alpha", "beta"} {
			if dir := copyDir(t, dir); true {
				twin := w.hostAt(host, dir)
				wantStandby(t, w.arrive(twin, "cli:wrong"), "alpha")
				wantStandby(t, twin.Look(t.Context()), "alpha")
				if got := keys(t, twin); len(got) != 2 {
					t.Errorf("%s copy as %s: it has %v", name, host, got)
				}
				wantStandby(t, w.arrive(twin, "cli:wrong"), "alpha")
			}
		}
	}
	check(t, w.arrive(alpha, "cli:three"))
}

// copyDir copies a state directory, as cp does.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	time.Sleep(10 * time.Millisecond) // the copies need another birth time
	to := filepath.Join(t.TempDir(), "copy")
	check(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// TestTake moves the seat by hand: the holder agrees, unless an agent works there.
func TestTake(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	turnLock, err := alpha.Store.TryLock(store.TurnLock)
	check(t, err)
	rings, polls := 0, 0
	waits := func(error) {
		switch polls++; polls {
		case 2: // alpha works on a turn
			check(t, alpha.Look(t.Context()))
		case 4:
			check(t, turnLock.Unlock())
			if e, ok := errors.AsType[*StandbyError](alpha.Look(t.Context())); !ok || e.To != "beta" {
				t.Errorf("alpha released the seat with %v", e)
			}
		}
	}
	check(t, beta.Take(t.Context(), func(context.Context) { rings++ }, waits))
	if rings != 1 || polls < 4 {
		t.Errorf("%d rings, %d looks", rings, polls)
	}
	check(t, w.arrive(beta, "cli:one"))
	wantStandby(t, w.arrive(alpha, "cli:wrong"), "")
	wantStandby(t, alpha.Look(t.Context()), "beta")
	// A wish counts once.
	w.now += time.Minute
	check(t, beta.Look(t.Context()))
	// A released seat goes to the other host at its next look, even if it does not take a silent one.
	check(t, beta.Release(t.Context()))
	wantStandby(t, beta.Look(t.Context()), "")
	check(t, alpha.Look(t.Context()))
}

// TestNoAuto leaves the seat of a silent holder to a person.
func TestNoAuto(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	beta.Auto = false
	w.join(alpha)
	w.join(beta)
	for range 60 {
		w.now += time.Minute
		wantStandby(t, beta.Look(t.Context()), "alpha")
	}
	check(t, beta.Take(t.Context(), func(context.Context) {}, func(error) {}))
}

// TestTheServersForget removes accepted heads. The holder stops, and a person decides.
func TestTheServersForget(t *testing.T) {
	for _, all := range []bool{false, true} {
		w := newWorld(t)
		alpha, beta := w.host("alpha"), w.host("beta")
		w.join(alpha)
		w.join(beta)
		check(t, w.arrive(alpha, "cli:one"))
		check(t, w.arrive(alpha, "cli:two"))
		wantStandby(t, beta.Look(t.Context()), "alpha")
		if all {
			w.server.Remove("head")
		} else {
			w.server.Forget(2)
		}
		if err := alpha.Look(t.Context()); !errors.Is(err, ErrUnsure) && all { // the servers may lag
			t.Fatal(err)
		}
		wantTrouble(t, alpha.Look(t.Context()), Forgot)
		wantTrouble(t, w.arrive(alpha, "cli:wrong"), Forgot)
		w.now += time.Hour
		if err := beta.Look(t.Context()); err == nil {
			t.Fatal("a standby took the seat of an older head")
		}
		j, err := alpha.Join(t.Context(), true)
		check(t, err)
		if !j.Made || j.Term < 2 {
			t.Errorf("joined again: %+v", j)
		}
		check(t, w.arrive(alpha, "cli:three"))
		wantStandby(t, beta.Look(t.Context()), "alpha")
		if got := keys(t, beta); len(got) != 3 {
			t.Errorf("all %v: beta has %v", all, got)
		}
	}
}

// TestForeignHead puts a head without the signature of the agent into the servers.
func TestForeignHead(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	w.server.Forge("head", []byte("{}\n"))
	wantTrouble(t, alpha.Look(t.Context()), Foreign)
	wantTrouble(t, beta.Look(t.Context()), Foreign)
	_, err := alpha.Join(t.Context(), false)
	wantTrouble(t, err, Foreign)
	_, err = alpha.Join(t.Context(), true)
	check(t, err)
	check(t, alpha.Look(t.Context()))
	wantStandby(t, beta.Look(t.Context()), "alpha")
}

// TestOwnLife refuses a directory whose state is not that of the servers, and sets it aside.
func TestOwnLife(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	beta.Store.Arbiter = nil
	check(t, w.arrive(beta, "cli:own"))
	beta.Store.Arbiter = beta
	w.join(alpha)
	wantTrouble(t, beta.Look(t.Context()), OwnLife)
	_, err := beta.Join(t.Context(), false)
	wantTrouble(t, err, OwnLife)
	j, err := beta.Join(t.Context(), true)
	check(t, err)
	if !j.Aside || len(keys(t, beta)) != 0 {
		t.Errorf("joined: %+v, the inbox has %v", j, keys(t, beta))
	}
	aside, err := filepath.Glob(filepath.Join(beta.Store.Dir, "state.json.replaced-*"))
	if err != nil || len(aside) != 1 {
		t.Errorf("the state was not set aside: %v", aside)
	}
}

// TestJoinInterrupted loses requests or answers of the first join, and joins again.
func TestJoinInterrupted(t *testing.T) {
	for name, stored := range map[string]bool{"requests": false, "answers": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			alpha, beta := w.host("alpha"), w.host("beta")
			for _, s := range []*Seat{alpha, beta} {
				s.Store.Arbiter = nil
				check(t, w.arrive(s, "cli:of-"+s.Host))
				s.Store.Arbiter = s
			}
			lose := func() {
				w.server.Hook = func(c memfleet.Call, do func() error) error {
					if c.Name != "OfferHead" {
						return do()
					}
					if stored {
						_ = do() // nobody hears the answer
					}
					return memfleet.ErrLost
				}
			}
			lose()
			if _, err := alpha.Join(t.Context(), false); !errors.Is(err, ErrUnsure) {
				t.Fatal(err)
			}
			w.server.Hook = nil
			j := w.join(alpha)
			if j.Holder != "alpha" || j.Term != 1 {
				t.Errorf("joined again: %+v", j)
			}
			check(t, alpha.Look(t.Context()))
			check(t, w.arrive(alpha, "cli:after"))

			lose()
			_, err := beta.Join(t.Context(), false)
			w.server.Hook = nil
			wantTrouble(t, err, OwnLife)
			wantTrouble(t, beta.Look(t.Context()), OwnLife)
			if got := fmt.Sprint(keys(t, beta)); got != "[cli:of-beta]" {
				t.Errorf("beta has %s", got)
			}
		})
	}
}

// TestLateFirstJoin has the servers accept the first join during the second one.
func TestLateFirstJoin(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	var late func() error
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "OfferHead" {
			late = do
			return memfleet.ErrLost
		}
		return do()
	}
	if _, err := alpha.Join(t.Context(), false); !errors.Is(err, ErrUnsure) {
		t.Fatal(err)
	}
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "OfferHead" && late != nil {
			check(t, late())
			late = nil
		}
		return do()
	}
	if j := w.join(alpha); j.Holder != "alpha" || j.Term != 1 {
		t.Errorf("joined: %+v", j)
	}
	check(t, w.arrive(alpha, "cli:after"))
}

// TestTwoFirstJoins loses the first join of a host with a life of its own. Another host is first, and
// the directory stays as it is.
func TestTwoFirstJoins(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	beta.Store.Arbiter = nil
	check(t, w.arrive(beta, "cli:of-beta"))
	beta.Store.Arbiter = beta
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "OfferHead" {
			return memfleet.ErrLost
		}
		return do()
	}
	if _, err := beta.Join(t.Context(), false); !errors.Is(err, ErrUnsure) {
		t.Fatal(err)
	}
	w.server.Hook = nil
	w.join(alpha)
	for i := range 3 {
		check(t, w.arrive(alpha, fmt.Sprint("cli:", i)))
	}
	wantTrouble(t, beta.Look(t.Context()), OwnLife)
	_, err := beta.Join(t.Context(), false)
	wantTrouble(t, err, OwnLife)
	if got := fmt.Sprint(keys(t, beta)); got != "[cli:of-beta]" {
		t.Errorf("beta has %s", got)
	}
}

// TestLeaveWaitsForTheTurn refuses to leave while an agent works: its result would be lost.
func TestLeaveWaitsForTheTurn(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	lock, err := alpha.Store.TryLock(store.TurnLock)
	check(t, err)
	if _, err := alpha.Leave(t.Context()); !errors.Is(err, ErrBusy) {
		t.Fatalf("left: %v", err)
	}
	check(t, lock.Unlock())
	if alone, err := alpha.Leave(t.Context()); err != nil || !alone {
		t.Fatal(alone, err)
	}
}

// TestJoinAfterAnotherHostLeft refuses a directory that is older than that of the host with which the
// agent has left.
func TestJoinAfterAnotherHostLeft(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	if _, err := alpha.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := beta.Join(t.Context(), false)
	wantTrouble(t, err, Left)
	if j, err := beta.Join(t.Context(), true); err != nil || !j.Made {
		t.Errorf("by force: %+v, %v", j, err)
	}
}

// TestLeave takes the agent home: every other host stops.
func TestLeave(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	check(t, w.arrive(alpha, "cli:one"))
	alone, err := alpha.Leave(t.Context())
	check(t, err)
	if !alone {
		t.Error("the holder did not keep the agent")
	}
	wantTrouble(t, beta.Look(t.Context()), Left)
	alpha.Store.Arbiter = nil
	check(t, w.arrive(alpha, "cli:two"))
	alpha.Store.Arbiter = alpha
	if j := w.join(alpha); !j.Made || j.Term != 3 {
		t.Errorf("joined again: %+v", j)
	}
	wantStandby(t, beta.Look(t.Context()), "alpha")
	if got := keys(t, beta); len(got) != 2 {
		t.Errorf("beta has %v", got)
	}
}

// TestALongHistory goes through many blocks, of which a process may die after each.
func TestALongHistory(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	const messages = 120
	for i := range messages {
		check(t, w.arrive(alpha, fmt.Sprintf("cli:%d%s", i, strings.Repeat("x", 500))))
	}
	v, err := alpha.View()
	check(t, err)
	if v.Blocks < 2 {
		t.Errorf("the history has %d blocks", v.Blocks)
	}
	w.join(beta)
	if got := keys(t, beta); len(got) != messages {
		t.Errorf("beta has %d messages", len(got))
	}
	a, err := beta.Store.Audit()
	check(t, err)
	if len(a.Breaks) > 0 {
		t.Errorf("the history has breaks: %v", a.Breaks)
	}
}

// TestHistoryOfAWrongClock checks that the history of a standby is whole although the clock of the
// holder was in another month for a while.
func TestHistoryOfAWrongClock(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	for i, months := range []int{0, 1, 0, -1, 0, 1} {
		check(t, w.arriveAt(alpha, fmt.Sprint("cli:", i), w.wall().AddDate(0, months, 0)))
		wantStandby(t, beta.Look(t.Context()), "alpha")
	}
	for _, s := range []*Seat{alpha, beta} {
		audit, err := s.Store.Audit()
		check(t, err)
		if len(audit.Breaks) > 0 {
			t.Errorf("%s: %v", s.Host, audit.Breaks)
		}
	}
}

// TestAServerThatLags checks that a host does not take a server for one that forgot: it lags so much
// that it has no head yet.
func TestAServerThatLags(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	lags := 3
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if lags--; lags >= 0 {
			*c.Lag = 1000
		}
		return do()
	}
	wantStandby(t, beta.Look(t.Context()), "alpha")
}

// TestEvict checks that a host that follows another one ends the agent of its own state first: a
// command may do that, before a poll has swept.
func TestEvict(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	check(t, w.arrive(alpha, "cli:one"))
	wantStandby(t, beta.Look(t.Context()), "alpha")
	before, err := alpha.Store.Read()
	check(t, err)
	w.now += time.Hour
	for beta.Look(t.Context()) != nil {
		w.now += time.Minute
	}
	check(t, w.arrive(beta, "cli:two"))
	var evicted []uint64
	alpha.Evict = func(_ context.Context, s state.State) error {
		if here, err := alpha.Store.Read(); err != nil || here.Serial != s.Serial {
			t.Errorf("the state is replaced already: serial %d, %v", here.Serial, err)
		}
		evicted = append(evicted, s.Serial)
		return nil
	}
	alpha.Auto = false
	wantStandby(t, alpha.Look(t.Context()), "beta") // its offer is refused
	wantStandby(t, alpha.Look(t.Context()), "beta")
	if len(evicted) != 1 || evicted[0] != before.Serial {
		t.Errorf("evicted %v, want %d", evicted, before.Serial)
	}
}
