// Package relay carries the commands of an agent in a sandbox to its runner, which performs them
// (docs/design.md, "The box of an agent"). The state directory does not exist in the sandbox, so
// `submit`, `ask` and similar commands cannot work there themselves.
//
// The runner listens on a unix socket in a folder of the attempt. A command sends one Request as
// a line of JSON, and gets one Answer as a line of JSON. A request does not name an agent or a
// turn: both are those of the runner. So a request can do no more than the agent could without a
// sandbox.
package relay
