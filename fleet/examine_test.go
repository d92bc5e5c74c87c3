package fleet_test

import (
	"fmt"
	"regexp"
	"testing"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// fleetSubject matches the lines of a configuration that are only for agents with [fleet].
var fleetSubject = regexp.MustCompile(`(?m)^.*(asl-head|asl\.hist|asl\.file).*\n`)

// TestExamineFleetApart checks that the rights and streams that only an agent with [fleet] needs are
// reported apart, so that servers of an older version are right for all others.
func TestExamineFleetApart(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice")
	streams := []string{fleet.HeadStream, fleet.HistoryStream, fleet.FileStream}
	expect := func(what string, missing int, state fleet.AssetState) {
		t.Helper()
		seen, err := e.Conn("alice").Examine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(seen.Lacks)+len(seen.Excess) > 0 || seen.Tried != len(fleet.Rights("alice").Publish)+len(fleet.Rights("alice").Subscribe)-8-1 {
			t.Errorf("%s: it lacks %q, has %q too much, and %d were tried", what, seen.Lacks, seen.Excess, seen.Tried)
		}
		for _, a := range seen.Assets {
			if a.Stream != fleet.EventStream && a.State != fleet.AssetThere {
				t.Errorf("%s: %+v", what, a)
			}
		}
		var got []string
		for _, a := range seen.FleetAssets {
			got = append(got, a.Stream)
			if a.State != state {
				t.Errorf("%s: %+v, want %s", what, a, state)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(streams) || len(seen.FleetMissing) != missing {
			t.Errorf("%s: the streams of [fleet] are %s, the missing rights %q", what, got, seen.FleetMissing)
		}
	}
	expect("all", 0, fleet.AssetThere)
	for _, s := range streams {
		e.Ask("STREAM.DELETE."+s, nil, nil)
	}
	expect("no streams", 0, fleet.AssetMissing)
	e.Configure(func(text string) string { return fleetSubject.ReplaceAllString(text, "") })
	expect("no rights", 8, fleet.AssetUnseen)
}
