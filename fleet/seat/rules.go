package seat

import "time"

// The rules of the lease, F1 to F6 (docs/protocol.md, "The seat"). All times are of the boot clock
// of one host. The lease ends at end: the time when the holder sent its newest accepted head, plus
// the lease. So with clocks that differ by half a percent the holder stops before anybody else
// begins.
const (
	// quiet is how long before the end the holder begins to stop.
	quiet = 10 * time.Second

	// beginMargin is how long before quiet no effect begins any more.
	beginMargin = 5 * time.Second

	// killMargin is how long before the end the agent is killed without grace.
	killMargin = 5 * time.Second

	// MinLease is the shortest lease that leaves time to act.
	MinLease = 30 * time.Second

	// cronEvery is how often cron polls.
	cronEvery = time.Minute

	// DefaultLease allows for one missed poll of cron in a lease.
	DefaultLease = 150 * time.Second
)

// mayBegin reports whether the holder may begin an effect (F1).
func mayBegin(now, end time.Duration) bool { return now+beginMargin < end-quiet }

// effectsEnd returns when every effect must have ended (F1), and when the agent gets TERM (F2).
func effectsEnd(end time.Duration) time.Duration { return end - quiet }

// mustKill reports whether the agent must die at once (F2, F3).
func mustKill(now, end time.Duration) bool { return now >= end-killMargin }

// lapseAfter returns how long a host must have seen the same beat before it may take the seat (F4),
// counted from the arrival of the answer that showed the beat first.
func lapseAfter(lease time.Duration) time.Duration { return lease + lease/100 + 5*time.Second }

// Silence returns how long the holder of a lease must be silent before another host acts.
func Silence(lease time.Duration) time.Duration { return lapseAfter(lease) }

// beatEvery returns the pause between the beats of a runner (F2).
func beatEvery(lease time.Duration) time.Duration { return lease / 5 }

// pollEvery returns the pause between two polls that the lease allows for.
func pollEvery(lease time.Duration) time.Duration { return lease * 2 / 5 }

// orphanWait returns how long the new holder leaves the turn of another host alone (F6): that host
// polls once more, and kills its agent.
func orphanWait(lease time.Duration) time.Duration {
	return max(pollEvery(lease), cronEvery) + 15*time.Second
}
