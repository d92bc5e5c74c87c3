// Package cycle connects the state machine to the world. It loads the state, observes mail,
// mesh and nudges, steps the machine, saves, sends the outbox, keeps the crontab line up to
// date, and runs turns (docs/design.md, "One cycle").
//
// Every decision that [state.Step] can make is left to it: this package turns observations into
// events, and the outbox into deliveries. One cycle goes one way through its files:
//
//	poll.go ─▶ observe*.go ─▶ accept.go ─▶ commit.go ─▶ project.go ─▶ perform.go ─▶ turns.go
//
// A turn continues in attempt.go, turn_end.go and deliver.go, and flush.go sends its reply.
// [Agent] has the wiring and the public operations. Each job is a type with its dependencies;
// wiring.go makes these types.
package cycle
