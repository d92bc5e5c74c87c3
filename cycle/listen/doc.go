// Package listen wakes agents the moment something comes, instead of at the next
// minute of cron: one process for any number of agents (DESIGN 11, `listen`).
//
//	webhook, named pipe ─▶ nudges/ ─┐
//	a file in nudges/ ──────────────┤
//	mesh: long poll, wake address ──┼─▶ wake, one at most waits ─▶ poll ─▶ detached poll, if a turn can run
//	mail: IDLE ─────────────────────┤
//	a slow scan ────────────────────┘
//
// It decides nothing and remembers nothing: a wake is only a doorbell, and what
// it rang for lies in nudges/, on the mesh or in the mailbox. So nothing is lost
// when the listener dies, and cron, which stays on, would find it too. Its polls
// are ordinary cycles under the same locks; turns run in processes of their own,
// which outlive it.
package listen
