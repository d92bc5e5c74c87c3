package cycle

import (
	"strings"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// takenAMinute limits how many messages of one sender are taken within a minute if the mesh has
// no rate limit itself. The others wait there (docs/design.md, "The mesh over NATS").
const takenAMinute = 5

// senderPace counts the messages that are taken from each sender within a minute.
type senderPace struct {
	state state.State // at the start of the observation
	now   time.Time
	taken map[string]int // by sender, filled on first use
}

// admits reports whether a message that passed the gate may be taken now, and counts it. A
// repeated message is always taken, so that it is acknowledged. So is a nudge.
func (p *senderPace) admits(m mesh.Message) bool {
	if _, known := p.state.Seen[m.Key()]; known || m.Kind == mesh.KindNudge {
		return true
	}
	if p.taken == nil {
		p.taken = map[string]int{}
	}
	n, counted := p.taken[m.From]
	if !counted {
		n = p.seenOf(m)
	}
	if n >= takenAMinute {
		return false
	}
	p.taken[m.From] = n + 1
	return true
}

// seenOf counts the messages taken from this sender within the last minute.
func (p *senderPace) seenOf(m mesh.Message) (n int) {
	prefix := m.SenderKey()
	for key, at := range p.state.Seen {
		if age := p.now.Sub(time.Unix(at, 0)); strings.HasPrefix(key, prefix) && age >= 0 && age < time.Minute {
			n++
		}
	}
	return n
}
