// Package listen polls for agents the moment something arrives, instead of at the next minute of
// cron. One process serves any number of agents.
//
//	webhook, named pipe ─▶ nudges/ ─┐
//	a file in nudges/ ──────────────┤
//	mesh: long poll, wake address ──┼─▶ request, at most one pending ─▶ poll ─▶ detached poll, if a turn can run
//	mail: IDLE ─────────────────────┤
//	a slow scan ────────────────────┘
//
// The listener makes no decisions and stores no data. A request is only a doorbell: the message
// itself is in nudges/, on the mesh or in the mailbox. If the listener dies, no message is lost,
// because cron keeps running and finds it too. The listener's polls are ordinary cycles under the
// same locks. Turns run in their own processes, which outlive the listener.
package listen
