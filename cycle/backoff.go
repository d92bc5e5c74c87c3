package cycle

import (
	"math/rand/v2"
	"time"
)

// Backoff returns pauses that double from Least to Most. Each is shortened by up
// to half at random, so that a thousand agents do not come back at once.
type Backoff struct {
	Least, Most time.Duration
	last        time.Duration
}

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.Least), b.Most)
	return b.last/2 + rand.N(b.last/2+1)
}

// Reset starts again with Least.
func (b *Backoff) Reset() { b.last = 0 }
