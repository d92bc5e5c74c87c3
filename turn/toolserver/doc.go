// Package toolserver makes tools of the built-in loop from MCP servers (docs/design.md,
// "Tool servers"). A server is a program, which runs in a box, or an address. It was
// written by others: what it says is bounded, and what goes wrong with it costs its own
// calls alone.
package toolserver
