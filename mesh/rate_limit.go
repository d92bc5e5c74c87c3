package mesh

import (
	"maps"
	"time"
)

// messagesPerMinute is the mesh's limit for each sender (DESIGN 8).
const messagesPerMinute = 5

// rateLimit remembers when each sender last posted, at most five times.
type rateLimit struct {
	senders map[rateKey][]time.Time
	swept   time.Time // when those who fell silent were last forgotten
}

type rateKey struct {
	from   string
	proven bool
}

func newRateLimit() rateLimit { return rateLimit{senders: map[rateKey][]time.Time{}} }

// take notes a message, or says how long its sender has to wait.
func (p *rateLimit) take(caller rateKey, now time.Time) (wait time.Duration) {
	if age := now.Sub(p.swept); age < 0 || age > time.Minute {
		maps.DeleteFunc(p.senders, func(_ rateKey, times []time.Time) bool { return len(recent(times, now)) == 0 })
		p.swept = now
	}
	times := recent(p.senders[caller], now)
	if len(times) >= messagesPerMinute {
		return times[0].Add(time.Minute).Sub(now)
	}
	p.senders[caller] = append(times, now)
	return 0
}

// recent drops what is over a minute old, or in the future of a clock that was
// set back: nobody waits for that.
func recent(times []time.Time, now time.Time) []time.Time {
	var kept []time.Time
	for _, t := range times {
		if age := now.Sub(t); age >= 0 && age < time.Minute {
			kept = append(kept, t)
		}
	}
	return kept
}
