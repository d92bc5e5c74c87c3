package mesh

import (
	"maps"
	"net/http"
	"time"
)

const (
	// callsPerMinute limits each sender, for each kind of call (docs/design.md,
	// "The mesh").
	callsPerMinute = 5

	// maxUnprovenSenders limits the unproven senders of one minute, because they choose their
	// names.
	maxUnprovenSenders = 50_000
)

// rateLimit holds the times of each sender's calls in the last minute.
type rateLimit struct {
	senders  map[rateKey][]time.Time
	unproven int       // number of keys of unproven senders
	swept    time.Time // when silent senders were last removed
}

// rateKey is a sender and a kind of call. Each kind is counted separately, so that an agent
// that sends a lot can still HALT.
type rateKey struct {
	call   pacedCall
	from   string
	proven bool
}

// pacedCall is a kind of limited call, with the name that errors use.
type pacedCall string

const (
	callMessage pacedCall = "messages"
	callNudge   pacedCall = "nudges"
	callHalt    pacedCall = "calls of /kill"
	callGo      pacedCall = "calls of /resume"
	callRing    pacedCall = "rings" // of a wake address by unproven senders; from is the recipient
)

func newRateLimit() rateLimit { return rateLimit{senders: map[rateKey][]time.Time{}} }

// take counts a call and returns 0. If the limit is reached, it returns how long the sender has
// to wait.
func (p *rateLimit) take(caller rateKey, now time.Time) (wait time.Duration) {
	if age := now.Sub(p.swept); age < 0 || age > time.Minute {
		p.sweep(now)
	}
	before, known := p.senders[caller]
	if !known && !caller.proven {
		if p.unproven >= maxUnprovenSenders {
			return time.Minute
		}
		p.unproven++
	}
	times := recent(before, now)
	if len(times) >= callsPerMinute {
		return times[0].Add(time.Minute).Sub(now)
	}
	p.senders[caller] = append(times, now)
	return 0
}

// sweep forgets the senders that were silent for a minute.
func (p *rateLimit) sweep(now time.Time) {
	maps.DeleteFunc(p.senders, func(_ rateKey, times []time.Time) bool { return len(recent(times, now)) == 0 })
	p.unproven, p.swept = 0, now
	for caller := range p.senders {
		if !caller.proven {
			p.unproven++
		}
	}
}

// recent returns the times that are less than a minute old. It drops times in
// the future, which appear when the clock is set back.
func recent(times []time.Time, now time.Time) []time.Time {
	var kept []time.Time
	for _, t := range times {
		if age := now.Sub(t); age >= 0 && age < time.Minute {
			kept = append(kept, t)
		}
	}
	return kept
}

// pace counts a call. It returns a refusal if the call comes too soon. The caller holds mu.
func (s *Server) pace(call pacedCall, from string, proven bool) error {
	wait := s.rateLimit.take(rateKey{call, from, proven}, s.clock())
	if wait <= 0 {
		return nil
	}
	r := refuse(http.StatusTooManyRequests, "more than %d %s a minute", callsPerMinute, call)
	r.after = wait
	return r
}
