package seat

import (
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/memfleet"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

func (w *world) dropAll(s *Seat) error {
	_, err := s.Store.Commit(w.t.Context(), w.wall(), func(st state.State, _ store.Recovery) (state.State, error) {
		next := st
		next.Inbox = nil
		next.Serial++
		return next, nil
	})
	return err
}

// after 30 days the files are uploaded again; a past file is gone here.
func TestRenewalWithAPastFileThatIsGone(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	check(t, w.arrive(alpha, "cli:one"))
	check(t, w.dropAll(alpha))
	check(t, os.Remove(alpha.Store.Path(store.PayloadName(store.MessagesDir, "cli:one", ".json"))))
	check(t, w.arrive(alpha, "cli:two"))
	w.now += 31 * 24 * time.Hour
	check(t, alpha.Look(t.Context()))
	check(t, w.arrive(alpha, "cli:three"))
}

// the same for memory.md that the operator removed.
func TestRenewalWithoutMemory(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	check(t, os.WriteFile(alpha.Store.Path(store.MemoryFile), []byte("x"), 0o600))
	check(t, w.arrive(alpha, "cli:one"))
	check(t, os.Remove(alpha.Store.Path(store.MemoryFile)))
	check(t, alpha.Look(t.Context()))
	beta := w.host("beta")
	w.join(beta)
	if _, err := os.Stat(beta.Store.Path(store.MemoryFile)); err == nil {
		t.Error("the removed memory.md is on beta again")
	}
	w.now += 31 * 24 * time.Hour
	check(t, alpha.Look(t.Context()))
}

// a late offer: the payload of the commit that steps again must stay.
func TestRebaseKeepsThePayload(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	// The first offer is stored, but the process is killed before the answer; the next process reads a server that lags.
	killed, lag := true, true
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "OfferHead" && killed {
			killed = false
			_ = do()
			panic("killed")
		}
		if c.Name == "LoadHead" && lag {
			lag = false
			*c.Lag = 1
		}
		return do()
	}
	func() {
		defer func() { _ = recover() }()
		_ = w.arrive(alpha, "cli:one")
	}()
	check(t, w.arrive(alpha, "cli:two"))
	if got := strings.Join(keys(t, alpha), " "); got != "cli:one cli:two" {
		t.Errorf("inbox: %s", got)
	}
	for _, k := range []string{"cli:one", "cli:two"} {
		if _, err := os.Stat(alpha.Store.Path(store.PayloadName(store.MessagesDir, k, ".json"))); err != nil {
			t.Error(err)
		}
	}
}

// a first join that fails.
func TestJoinAgainAfterAFailedFirstJoin(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	down := true
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "OfferHead" && down {
			return memfleet.ErrLost
		}
		return do()
	}
	if _, err := alpha.Join(t.Context(), false); err == nil {
		t.Fatal("joined")
	}
	down = false
	if _, err := alpha.Join(t.Context(), false); err != nil {
		t.Error(err)
	}
}

// a process that has no arbiter (it was started before [fleet]) commits after the join.
func TestAProcessFromBeforeTheJoin(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	old := w.hostAt("alpha", alpha.Store.Dir)
	old.Store.Arbiter = nil
	check(t, w.arrive(old, "cli:one"))
	w.join(alpha)
	if err := w.arrive(old, "cli:two"); err == nil {
		t.Error("a process without the seat has committed")
	}
	check(t, alpha.Look(t.Context()))
}

// servers made again, another host joined with --replace, the old holder comes back at the same revision.
func TestOldHolderInNewServers(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	for range 10 {
		w.now += time.Minute
		check(t, alpha.Look(t.Context()))
		_ = beta.Look(t.Context())
	}
	// The machine of alpha and the only server die. A new server is made.
	w.server.Forget(1000)
	_ = beta.Look(t.Context())
	_, err := beta.Join(t.Context(), true)
	check(t, err)
	check(t, w.arrive(beta, "cli:new"))
	// alpha returns, and polls each minute, as beta does.
	for range 30 {
		w.now += time.Minute
		if err := beta.Look(t.Context()); err != nil {
			t.Fatalf("beta: %v", err)
		}
		err := alpha.Look(t.Context())
		if err == nil {
			t.Fatalf("alpha acts with %q, beta's messages %q", keys(t, alpha), keys(t, beta))
		}
		t.Log(err)
	}
}

// a claim whose answer is late, taken by nobody for a lease.
func TestLateClaim(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	_ = beta.Look(t.Context())
	w.now += 200 * time.Second
	var late func() error
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Host == "beta" && c.Name == "OfferHead" {
			late = do
			return memfleet.ErrLost
		}
		return do()
	}
	if err := beta.Look(t.Context()); err == nil {
		t.Fatal("took it")
	}
	first := true
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "OfferHead" && first {
			first = false
			_ = late()
		}
		return do()
	}
	w.now += time.Minute
	err := beta.Look(t.Context())
	t.Log(err)
	w.now += time.Minute
	if err := beta.Look(t.Context()); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

// servers restored to an older head, holder dead: the standby must say so, or take it.
func TestOlderServersAndADeadHolder(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	for range 3 {
		w.now += time.Minute
		check(t, alpha.Look(t.Context()))
		_ = beta.Look(t.Context())
	}
	w.server.Forget(1)
	for range 60 {
		w.now += time.Minute
		err := beta.Look(t.Context())
		if err == nil {
			return
		}
		if _, ok := err.(*TroubleError); ok {
			return
		}
	}
	t.Error(beta.Look(t.Context()))
}

// Left elsewhere, join --replace here.
func TestReplaceAfterLeave(t *testing.T) {
	w := newWorld(t)
	alpha, gamma := w.host("alpha"), w.host("gamma")
	w.join(alpha)
	check(t, w.arrive(alpha, "cli:one"))
	_, err := alpha.Leave(t.Context())
	check(t, err)
	j, err := gamma.Join(t.Context(), true)
	t.Logf("%+v %v %q", j, err, keys(t, gamma))
	if err == nil && len(keys(t, gamma)) == 0 {
		t.Error("the empty directory of gamma became the state")
	}
}

// a standby that cannot copy the files must still see the silence.
func TestAStandbyWhoseInstallFailsSeesTheHolder(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	check(t, w.arrive(alpha, "cli:one"))
	// the block history or one file cannot be read for now
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "GetFile" {
			return memfleet.ErrLost
		}
		return do()
	}
	for range 5 {
		w.now += time.Minute
		t.Log(beta.Look(t.Context()))
	}
	w.server.Hook = nil
	w.now += time.Minute
	if err := beta.Look(t.Context()); err != nil {
		t.Error(err)
	}
}

// join --replace on the wrong host: the newer state of the old holder is destroyed.
func TestReplaceOnTheWrongHostKeepsTheOther(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	for range 5 {
		w.now += time.Minute
		check(t, w.arrive(alpha, "cli:"+store.NewID()))
	}
	check(t, w.arrive(alpha, "cli:precious"))
	w.server.Forget(1000)
	_ = beta.Look(t.Context())
	_, err := beta.Join(t.Context(), true)
	check(t, err)
	for range 40 {
		w.now += time.Minute
		_ = beta.Look(t.Context())
	}
	for range 3 {
		t.Log(alpha.Look(t.Context()))
	}
	if !strings.Contains(strings.Join(keys(t, alpha), " "), "precious") {
		entries, _ := os.ReadDir(alpha.Store.Dir)
		for _, e := range entries {
			if strings.Contains(e.Name(), "replaced") {
				return
			}
		}
		t.Error("alpha's newer state is gone, without a copy")
	}
}

// An offer is recorded durably before it is sent: after a power loss it must be recognised.
func TestAnOfferIsDurableBeforeItIsSent(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	var steps []string
	alpha.Store.Hook = func(step, path string) error {
		steps = append(steps, step+" "+strings.TrimPrefix(path, alpha.Store.Dir))
		return nil
	}
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "OfferHead" {
			if got := strings.Join(steps, ", "); !strings.HasSuffix(got, "rename /fleet.json, fsyncdir ") {
				t.Errorf("before the offer: %s", got)
			}
		}
		return do()
	}
	check(t, alpha.Look(t.Context()))
}

// The name of the machine may change. Without a name in agent.toml the host keeps its own.
func TestTheNameOfAHostStays(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	if name := HostIn(alpha.Store); name != "alpha" {
		t.Errorf("the host is %q", name)
	}
	if name := HostIn(w.host("beta").Store); name != "" {
		t.Errorf("a host that has not joined is %q", name)
	}
	if name := HostIn(&store.Store{Dir: copyDir(t, alpha.Store.Dir), Agent: handle}); name != "" {
		t.Errorf("a copied directory is %q", name)
	}
	wantStandby(t, w.hostAt("gamma", alpha.Store.Dir).Look(t.Context()), "alpha")
}

// many files: what was uploaded before the time is over counts next time.
func TestAnUploadGoesOn(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	check(t, os.MkdirAll(alpha.Store.Path(store.MemoryDir), 0o700))
	for i := range 100 {
		check(t, os.WriteFile(alpha.Store.Path(store.MemoryDir+"/"+store.NewID()), []byte{byte(i)}, 0o600))
	}
	puts := 0
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Name == "PutFile" {
			if puts++; puts%60 == 0 {
				return memfleet.ErrDown // the time is over
			}
		}
		return do()
	}
	for range 5 {
		if err := alpha.Look(t.Context()); err == nil {
			if puts > 110 {
				t.Errorf("%d uploads", puts)
			}
			return
		}
	}
	t.Errorf("never: %d uploads", puts)
}

// an old wish
func TestReleasedToAHostThatDoesNotPollItself(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	alpha.Auto, beta.Auto = false, false
	w.join(alpha)
	w.join(beta)
	check(t, beta.ask(t.Context(), 1)) // fleet take on beta, killed
	_ = alpha.Look(t.Context())
	for range 20 {
		w.now += time.Minute
		if beta.Look(t.Context()) == nil || alpha.Look(t.Context()) == nil {
			return
		}
	}
	t.Error(alpha.Look(t.Context()), beta.Look(t.Context()))
}

// an accepted beat without an answer must not roll back the files of the holder.
func TestAnUnsureBeatKeepsTheFiles(t *testing.T) {
	w := newWorld(t)
	alpha := w.host("alpha")
	w.join(alpha)
	check(t, os.WriteFile(alpha.Store.Path(store.MemoryFile), []byte("old"), 0o600))
	check(t, alpha.Look(t.Context()))
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		err := do()
		if c.Name == "OfferHead" || c.Name == "LoadHead" {
			return memfleet.ErrLost // stored, but no answer
		}
		return err
	}
	w.now += 30 * time.Second
	if err := alpha.Look(t.Context()); err == nil {
		t.Fatal("sure")
	}
	w.server.Hook = nil
	check(t, os.WriteFile(alpha.Store.Path(store.MemoryFile), []byte("new words of the agent"), 0o600))
	w.now += 30 * time.Second
	check(t, alpha.Look(t.Context()))
	data, err := os.ReadFile(alpha.Store.Path(store.MemoryFile))
	if err != nil || string(data) != "new words of the agent" {
		t.Errorf("memory.md: %q %v", data, err)
	}
}

// the bucket of heads is lost, the blocks are not, and the holder is dead: another host replaces it.
func TestBlocksOfALostHead(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	n := 0
	fill := func(s *Seat) (err error) {
		for range 200 {
			n++
			w.now += time.Second
			if err = w.arrive(s, "cli:"+strings.Repeat("x", 150)+store.NewID()); err != nil {
				return err
			}
			if err = w.dropAll(s); err != nil {
				return err
			}
		}
		return nil
	}
	check(t, fill(alpha)) // beta has not looked since
	if v, _ := alpha.View(); v.Blocks == 0 {
		t.Fatal("no block")
	}
	w.server.Remove("head")
	_ = beta.Look(t.Context())
	_, err := beta.Join(t.Context(), true)
	check(t, err)
	check(t, fill(beta))
}

// a slow upload must not cost the seat.
func TestASlowUploadKeepsTheLease(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.host("alpha"), w.host("beta")
	w.join(alpha)
	w.join(beta)
	_ = beta.Look(t.Context())
	w.now += 59 * time.Second // the next poll of alpha would be in a second
	slow := true
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if c.Host == "alpha" && c.Name == "PutFile" && slow {
			slow = false
			for range 7 { // 105 s
				w.now += 15 * time.Second
				if beta.Look(t.Context()) == nil {
					t.Error("beta took the seat during the upload")
				}
			}
		}
		return do()
	}
	check(t, w.arrive(alpha, "cli:large"))
}
