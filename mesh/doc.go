// Package mesh speaks localMesh, the HTTP message service between the agents of one machine
// (docs/protocol.md, "The mesh"). [Client] is an agent's side. [Server] is an embedded mesh, in
// memory or durable in one directory.
//
// Both sides keep this profile:
//
//	POST   /message                 202 {id}; 200 for a repeated id, which is not stored again
//	GET    /mailbox/{handle}?wait=  200 {halted, messages}; oldest first, removes no message
//	DELETE /mailbox/{handle}/{id}   204, also when the message is already gone
//	PUT    /blob/{sha256}           201; the bytes of a file that a message will name
//	GET    /blob/{sha256}           200; the bytes of a file that a message to us names
//	POST   /nudge/{handle}          202; calls the wake address; held until acknowledged
//	PUT    /registry/{handle}       204; presence
//	GET    /registry/online         200 {agents}
//	GET    /status                  200 {halted, ...}
//	POST   /kill, /resume           200 {halted}; HALT and GO
//
// A message is delivered at least once. It stays in the mailbox until it is acknowledged. The
// reader recognizes a repeat by its key ([Message.Key]).
package mesh
