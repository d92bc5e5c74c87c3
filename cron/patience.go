package cron

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrHangs reports that a crontab process timed out, or was not started because an
// earlier one had, under the same [Patient] context.
var ErrHangs = errors.New("timed out")

// Patient returns a context under which a crontab program that hangs costs about one
// time-out, however often it is needed. After a process that timed out no other is
// started. After one that was to write the table, the table must still be read and
// perhaps be restored: these processes get a tenth of the time each, until one of them
// times out, too.
func Patient(ctx context.Context) context.Context {
	if ctx.Value(patienceKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, patienceKey{}, new(atomic.Int32))
}

// patienceKey is the key of how patient a context still is: full, little or none.
type patienceKey struct{}

const (
	fullPatience = iota
	littlePatience
	noPatience
)

// patience returns what is left of a Patient context, or what nobody reads.
func patience(ctx context.Context) *atomic.Int32 {
	if left, ok := ctx.Value(patienceKey{}).(*atomic.Int32); ok {
		return left
	}
	return new(atomic.Int32)
}

// Hangs reports whether no crontab process is started any more under a Patient context.
func Hangs(ctx context.Context) bool { return patience(ctx).Load() == noPatience }

// timeLeft returns how long a process may take.
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

// lose notes that a process timed out, which was to write the table or to read it.
func lose(left *atomic.Int32, writing bool) {
	if !writing || !left.CompareAndSwap(fullPatience, littlePatience) {
		left.Store(noPatience)
	}
}
