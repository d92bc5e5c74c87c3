package simulator

import (
	"maps"
	"sync"
)

// Counts holds how often things happened. Points counts, by name, the points at
// which a fault could strike.
type Counts struct {
	Processes int
	Attempts  int
	Points    map[string]int
	Sometimes map[string]int // rare events that some runs should reach
}

type counters struct {
	mu sync.Mutex
	Counts
}

func newCounters() *counters {
	return &counters{Counts: Counts{Points: map[string]int{}, Sometimes: map[string]int{}}}
}

func (c *counters) point(site string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Points[site]++
}

func (c *counters) happened(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Sometimes[what]++
}

func (c *counters) process() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Processes++
}

func (c *counters) attempt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Attempts++
}

func (c *counters) read() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := c.Counts
	read.Points, read.Sometimes = maps.Clone(c.Points), maps.Clone(c.Sometimes)
	return read
}

// Add adds the counts of another run.
func (c *Counts) Add(other Counts) {
	c.Processes += other.Processes
	c.Attempts += other.Attempts
	if c.Points == nil {
		c.Points, c.Sometimes = map[string]int{}, map[string]int{}
	}
	for site, n := range other.Points {
		c.Points[site] += n
	}
	for what, n := range other.Sometimes {
		c.Sometimes[what] += n
	}
}
