package simulator

import (
	"sync"
	"time"
)

// clock is the time in a world. The servers have the true time. The clock of the
// agent's machine may be wrong.
type clock struct {
	mu   sync.Mutex
	true time.Time
	skew time.Duration
	back bool // it was set back at least once
	off  bool // it was ever wrong
}

// servers returns the time of the mail servers and the mesh.
func (c *clock) servers() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.true
}

// machine returns the time that the agent and cron see.
func (c *clock) machine() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.true.Add(c.skew)
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.true = c.true.Add(d)
}

func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += d
	c.back, c.off = c.back || d < 0, true
}

func (c *clock) skewed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

// daysOff reports whether the machine's clock is so wrong that a search for "mail
// since the day before" finds the wrong day.
func (c *clock) daysOff() bool { return c.skewed().Abs() > 12*time.Hour }

// wasSetBack reports whether the machine's clock was ever set back. That changes
// the recorded begin of an outage.
func (c *clock) wasSetBack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back
}

// wasWrong reports whether the machine's clock ever jumped. Then no moment that was
// computed before is what it was.
func (c *clock) wasWrong() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off
}

// settle corrects the machine's clock.
func (c *clock) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = c.back || c.skew > 0
	c.skew = 0
}
