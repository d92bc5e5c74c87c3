// Package view shows one agent to people and programs: its status, its lists, the progress of
// a message, its events. It reads the state directory and changes nothing.
//
// A Reader is made by Agent.View of package cycle. The sentences that are built from its
// results are in commands/present.
package view
