package cycle

import (
	"math/rand/v2"
	"time"
)

// Backoff returns pauses that double from Min to Max. Each is shortened by up
// to half at random, so that a thousand agents do not come back at once.
type Backoff struct {
	Min, Max time.Duration
	last     time.Duration
}

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.Min), b.Max)
	return b.last/2 + rand.N(b.last/2+1)
}

// Reset starts again with Min.
func (b *Backoff) Reset() { b.last = 0 }
