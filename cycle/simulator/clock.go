package simulator

import (
	"sync"
	"time"
)

// clock is the time in a world. The servers have the true one; the machine that
// the agent lives on may be off.
type clock struct {
	mu   sync.Mutex
	true time.Time
	skew time.Duration
	back bool // it was set back, once at least
}

// servers is the time that mail servers and mesh stamp with.
func (c *clock) servers() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.true
}

// machine is the time that the agent and cron see.
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
	c.back = c.back || d < 0
}

func (c *clock) skewed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

// daysOff says whether the machine's clock is so far off that "mail since the day
// before" asks for another day than was meant.
func (c *clock) daysOff() bool { return c.skewed().Abs() > 12*time.Hour }

// wasSetBack says whether the machine's clock has ever been set back, which moves
// the begin of an outage.
func (c *clock) wasSetBack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back
}

// settle sets the machine's clock right.
func (c *clock) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = c.back || c.skew > 0
	c.skew = 0
}
