package cycle

import (
	"math/rand/v2"
	"time"
)

// Backoff gives pauses that double from Least to Most, each shortened by up to
// a half at random, so that a thousand agents do not come back at once.
type Backoff struct {
	Least, Most time.Duration
	last        time.Duration
}

// Next is the next pause.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.Least), b.Most)
	return b.last/2 + rand.N(b.last/2+1)
}

// Reset begins anew with Least.
func (b *Backoff) Reset() { b.last = 0 }
