package cron

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrHangs reports that a crontab process timed out, or was not started because an earlier
// process timed out under the same [Patient] context.
var ErrHangs = errors.New("timed out")

// Patient returns a context that limits the cost of a hanging crontab program to about one
// timeout, regardless of the number of calls. After a process has timed out, no other is
// started. A process that timed out while writing the table is an exception: the table must
// still be read and perhaps restored. These processes get a tenth of the timeout each, until
// one of them times out, too.
func Patient(ctx context.Context) context.Context {
	if ctx.Value(patienceKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, patienceKey{}, new(atomic.Int32))
}

// patienceKey is the key of the patience of a context: full, little or no patience.
type patienceKey struct{}

const (
	fullPatience = iota
	littlePatience
	noPatience
)

// patience returns the patience of a Patient context, or a new full one.
func patience(ctx context.Context) *atomic.Int32 {
	if left, ok := ctx.Value(patienceKey{}).(*atomic.Int32); ok {
		return left
	}
	return new(atomic.Int32)
}

// Hangs reports whether crontab processes are no longer started under a Patient context.
func Hangs(ctx context.Context) bool { return patience(ctx).Load() == noPatience }

// timeLeft returns how long a process may take, and false if it must not start.
func timeLeft(left *atomic.Int32, timeout time.Duration) (limit time.Duration, ok bool) {
	switch left.Load() {
	case fullPatience:
		return timeout, true
	case littlePatience:
		return timeout / 10, true
	default:
		return 0, false
	}
}

// lose lowers the patience after a timeout of a process. writing is true if the process was to
// write the table.
func lose(left *atomic.Int32, writing bool) {
	if !writing || !left.CompareAndSwap(fullPatience, littlePatience) {
		left.Store(noPatience)
	}
}
