package natsfaults_test

import (
	"math/rand/v2"
	"strings"
	"sync"

	"agentstateloop/internal/testkit/fleettest"
)

// kindOf says what a frame is for the mesh, or "" if it is of no interest.
func kindOf(f fleettest.Frame) string {
	for _, k := range []struct{ verb, prefix, suffix, kind string }{
		{"PUB", "$JS.ACK.", "", "acknowledgement"},
		{"PUB", "$JS.API.CONSUMER.MSG.NEXT.", "", "pull"},
		{"PUB", "asl.box.", "", "post"},
		{"MSG", "asl.box.", "", "delivery"},
		{"MSG", "", ".stored", "PubAck"},
		{"MSG", "", ".end", "end of a pull"},
		{"MSG", "cmd.agent.", "", "ring"},
	} {
		if strings.TrimPrefix(f.Verb, "H") == k.verb && strings.HasPrefix(f.Subject, k.prefix) && strings.HasSuffix(f.Subject, k.suffix) {
			return k.kind
		}
	}
	return ""
}

// thief throws frames away at random, each kind as often as it says of a hundred.
type thief struct {
	of map[string]int

	mu     sync.Mutex
	off    bool
	random *rand.Rand
	stolen map[string]int
}

func newThief(of map[string]int, seed uint64) *thief {
	return &thief{of: of, random: rand.New(rand.NewPCG(seed, 1)), stolen: map[string]int{}}
}

func (th *thief) pass(f fleettest.Frame) bool {
	kind := kindOf(f)
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.off || th.random.IntN(100) >= th.of[kind] {
		return true
	}
	th.stolen[kind]++
	return false
}

// missed returns a kind of which no frame was thrown away, or "".
func (th *thief) missed() string {
	th.mu.Lock()
	defer th.mu.Unlock()
	for kind := range th.of {
		if th.stolen[kind] == 0 {
			return kind
		}
	}
	return ""
}

// stop lets everything pass from now on, and returns what was thrown away.
func (th *thief) stop() map[string]int {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.off = true
	return th.stolen
}
