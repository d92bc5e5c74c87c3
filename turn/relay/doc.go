// Package relay carries the commands of an agent in a box to its runner, which
// performs them (docs/design.md, "The box of an agent"). The state directory does
// not exist in the box, so `submit`, `ask` and the like cannot work there
// themselves.
//
// The runner listens on a unix socket in a folder of the attempt. A command sends
// one Request as a line of JSON, and gets one Answer as a line of JSON. A request
// names neither an agent nor a turn: both are those of the runner. So whatever is
// sent, it can do no more than the agent could without a box.
package relay
