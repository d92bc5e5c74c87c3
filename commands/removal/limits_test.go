package removal

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state/store"
)

// TestLimits tries each limit of a removal at its edge.
func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		// A held lock is tried every 20 ms.
		limittest.Duration("patience", 2*time.Minute-20*time.Millisecond, 40*time.Millisecond, func(t *testing.T, d time.Duration) (within bool) {
			dir := filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				st := &store.Store{Dir: dir, Agent: "goulard3120"}
				held, err := st.TryLock(store.CycleLock)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					time.Sleep(d - 10*time.Millisecond)
					_ = held.Unlock()
				}()
				release, err := Stop(t.Context(), st, nil, func(string) {})
				if within = err == nil; within {
					release()
				}
				time.Sleep(time.Minute) // until the lock is free
			})
			return within
		}),
	})
}
