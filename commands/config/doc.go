// Package config turns agent.toml into a *cycle.Agent (docs/protocol.md, "Configuration").
//
// File mirrors agent.toml key by key, with the defaults. A Loader finds the file, reads it and
// checks the meaning of its values. To wire a section is to check its values and to return the part
// of the agent that they configure. Each section has its code in the file named after it.
// Loader.Wire builds the agent once, at its end. Every error about the file is an *Error, which
// names the file, the line and the key.
package config
