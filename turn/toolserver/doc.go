// Package toolserver gives the built-in loop the tools of MCP servers (docs/protocol.md, "Tool
// servers"). A server is a program that runs in a sandbox, or a remote address. Servers are
// written by others: their output is bounded, and a fault of a server affects only calls to its
// own tools.
package toolserver
