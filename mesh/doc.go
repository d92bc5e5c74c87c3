// Package mesh speaks localMesh, the HTTP message service between the agents
// of one machine (DESIGN 8): [Client] is an agent's side of it, [Server] an
// embedded mesh, in memory or durable in one directory.
//
// The profile both sides keep:
//
//	POST   /message                 202 {id}; the same id again 200, nothing new
//	GET    /mailbox/{handle}?wait=  200 {halted, messages}; oldest first, consumes nothing
//	DELETE /mailbox/{handle}/{id}   204, also when it is gone already
//	POST   /nudge/{handle}          202; rings the wake address, held until acknowledged
//	PUT    /registry/{handle}       204; presence
//	GET    /registry/online         200 {agents}
//	GET    /status                  200 {halted, ...}
//	POST   /kill, /resume           200 {halted}; HALT and GO
//
// A message is delivered at least once: it stays in the mailbox until it is
// acknowledged, and its key ([Message.Key]) tells a repeat.
package mesh
