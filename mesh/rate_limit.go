package mesh

import (
	"maps"
	"time"
)

// messagesPerMinute limits each sender (docs/design.md, "The mesh").
const messagesPerMinute = 5

// rateLimit holds the times of each sender's messages of the last minute.
type rateLimit struct {
	senders map[rateKey][]time.Time
	swept   time.Time // when silent senders were last removed
}

type rateKey struct {
	from   string
	proven bool
}

func newRateLimit() rateLimit { return rateLimit{senders: map[rateKey][]time.Time{}} }

// take counts a message and returns 0, or returns how long the sender has to
// wait if the limit is reached.
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
