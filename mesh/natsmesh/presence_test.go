package natsmesh_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// TestAwayAgents checks that an agent that was not seen lately is away, and still known with its
// hosts.
func TestAwayAgents(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice, bob := e.Client("alice"), e.Client("bob")
	if err := bob.Register(t.Context(), mesh.Presence{Phase: state.ACTIVE}); err != nil {
		t.Fatal(err)
	}
	bob.Host = "beta"
	if _, err := bob.Status(t.Context()); err != nil { // a look for work, as is a poll
		t.Fatal(err)
	}
	bob.Host = "gamma"
	take(t, bob)
	e.Until("both hosts are in the registry", func(ctx context.Context) error { // the server stores a look for work later than it answers it
		if seen, err := alice.Seen(ctx); err != nil || len(seen) != 1 || len(seen[0].Hosts) != 2 {
			return fmt.Errorf("seen: %+v, %v", seen, err)
		}
		return nil
	})
	later := time.Now().Add(time.Hour)
	for _, away := range []bool{false, true} {
		if away {
			alice.Now = func() time.Time { return later }
		}
		seen, err := alice.Seen(t.Context())
		if err != nil || len(seen) != 1 || len(seen[0].Hosts) != 2 {
			t.Fatalf("seen: %+v, %v", seen, err)
		}
		got := fmt.Sprint(seen[0].Handle, seen[0].Phase, seen[0].Away, seen[0].Hosts[0].Host, seen[0].Hosts[0].Away, seen[0].Hosts[1].Host, seen[0].Hosts[1].Away)
		if want := fmt.Sprint("bob", state.ACTIVE, away, "beta", away, "gamma", away); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		online, err := alice.Online(t.Context())
		if err != nil || len(online) == 1 == away {
			t.Errorf("away: %v; online: %+v, %v", away, online, err)
		}
	}
}

// TestHosts checks that an agent finds its other hosts, and no host of another agent.
func TestHosts(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice, bob := e.Client("alice"), e.Client("bob")
	alice.Host, bob.Host = "beta", "delta"
	take(t, bob)
	take(t, alice)
	if err := alice.Register(t.Context(), mesh.Presence{Phase: state.IDLE}); err != nil {
		t.Fatal(err)
	}
	here, others, err := alice.Hosts(t.Context())
	if err != nil || here != "beta" || len(others) > 0 {
		t.Fatalf("alone: here %q, others %+v, %v", here, others, err)
	}
	alice.Host = "gamma"
	take(t, alice)
	e.Until("both hosts are in the registry", func(ctx context.Context) error {
		if _, others, err := alice.Hosts(ctx); err != nil || len(others) == 0 {
			return fmt.Errorf("others: %+v, %v", others, err)
		}
		return nil
	})
	if here, others, err = alice.Hosts(t.Context()); err != nil || here != "gamma" || len(others) != 1 || others[0].Host != "beta" || time.Since(others[0].SeenAt) > time.Minute {
		t.Errorf("two machines: here %q, others %+v, %v", here, others, err)
	}
}

// TestVersionOfHost checks that the row of a host names its version, that older rows without one
// stay valid, and that a version cannot contain control characters.
func TestVersionOfHost(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice")
	c := e.Conn("alice")
	for host, version := range map[string]string{"beta": "0.15.0", "delta": "", "gamma": "1\x1b[2J"} {
		c.Version = version
		if _, err := c.Look(t.Context(), host, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	c.Version = "0.16.0"
	if err := c.Looked(t.Context(), "zeta", time.Now()); err != nil { // without an answer
		t.Fatal(err)
	}
	alice := e.Client("alice")
	e.Until("all hosts are in the registry", func(ctx context.Context) error {
		_, others, err := alice.Hosts(ctx)
		if got := fmt.Sprint(versions(others)); err != nil || got != "[beta 0.15.0 delta  gamma  zeta 0.16.0]" {
			return fmt.Errorf("%s, %v", got, err)
		}
		return nil
	})
}

func versions(hosts []mesh.HostSeen) (all []string) {
	for _, h := range hosts {
		all = append(all, h.Host, h.Version)
	}
	return all
}
