// Package cycle is the one place where everything meets: it loads the state,
// observes mail, mesh and nudges, steps the machine, saves, performs what the
// outbox holds, keeps the crontab line true, and runs turns (DESIGN 3).
//
// It decides nothing that [state.Step] could decide: it turns what the world
// shows into events, and what the state holds into deeds. One cycle goes one
// way through its files:
//
//	poll.go ─▶ watchdog.go ─▶ observe*.go ─▶ commit.go ─▶ project.go ─▶ perform.go ─▶ turns.go
package cycle
