// Package acp speaks the Agent Client Protocol, version 1, with an agent that is a child
// process of ours: JSON-RPC 2.0, a message a line, on its standard input and output
// (docs/decisions/0054). It runs one turn, and tells what happens as events of package
// turn.
//
// We offer the agent neither files nor a terminal: it uses its own tools, in the box that
// it runs in. What it asks permission for is decided by the cause of the turn
// (permission.go). What it sends that we do not know becomes an Unknown event and changes
// nothing. What it sends while its session is loaded is not part of the answer.
//
// One goroutine reads what the agent says, one writes to it, and the one that called Run
// does the rest. It waits for nothing but messages, deadlines and the signal to cancel.
package acp
