// Package acp speaks the Agent Client Protocol, version 1, with an agent that is our child
// process: JSON-RPC 2.0, one message per line, on its standard input and output
// (docs/decisions/0054-acp-client-and-permissions.md). It runs one turn, and reports its progress as events of package turn.
//
// We do not offer the agent files or a terminal: it uses its own tools, in its sandbox. The cause
// of the turn decides the agent's requests for permission (permission.go). A message of an
// unknown kind becomes an Unknown event and has no other effect. Messages that arrive while the
// session is loaded are not part of the answer.
//
// One goroutine reads from the agent, one writes to it, and the goroutine that called Run does
// the rest. It waits only for messages, deadlines and the signal to cancel.
package acp
