// Package cycle is where everything meets. It loads the state, observes mail,
// mesh and nudges, steps the machine, saves, performs what the outbox holds,
// keeps the crontab line true, and runs turns (docs/design.md, "One cycle").
//
// It decides nothing that [state.Step] can decide: it turns what the world shows
// into events, and what the state holds into effects. One cycle goes one way
// through its files:
//
//	poll.go ─▶ watchdog.go ─▶ observe*.go ─▶ accept.go ─▶ commit.go ─▶ project.go ─▶ perform.go ─▶ turns.go
//
// One turn goes on through attempt.go, turn_end.go and deliver.go, and its reply
// leaves by flush.go. [Agent] has the wiring and the verbs; each job is a type
// that holds what it uses, and wiring.go makes them.
package cycle
