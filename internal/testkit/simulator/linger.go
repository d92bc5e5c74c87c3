package simulator

import (
	"context"
	"runtime"
)

// lingers notes that the agent has answered and lives. If its runner dies, it is an
// orphan.
func (p *process) lingers(a *livingAgent) {
	p.mu.Lock()
	p.lingering = a
	gone := p.dead
	p.mu.Unlock()
	if gone {
		p.leaveOrphan(a)
	}
}

// rest is the Rest of an agent that lingers: it submits something, which comes too
// late, and ends.
func (p *process) rest(ctx context.Context, a *livingAgent, marker string) {
	if s, err := p.agent.Store.Read(); err == nil && ctx.Err() == nil && s.Turn.LingersAt(a.in.TurnID, a.in.Epoch) {
		a.submit(marker + " too late")
	}
	v := p.point(Main, "agent lingers")
	if v == lostAll {
		p.die()
	}
	if p.isDead() {
		p.world.count.happened("a runner died and left an agent that had answered")
		runtime.Goexit()
	}
	p.mu.Lock()
	p.lingering = nil
	p.mu.Unlock()
	a.end()
}
