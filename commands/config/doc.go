// Package config turns agent.toml into a *cycle.Agent
// (docs/design.md, "Configuration").
//
// File is agent.toml, key by key, with its defaults. A Loader finds the file,
// reads it and checks what its values mean, section by section; a file named
// after a section wires it. The agent is built once, at the end of Loader.Wire.
// Every error about the file is an *Error: it names the file, the line and the
// key.
package config
