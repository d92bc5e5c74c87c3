package config

import (
	"path/filepath"
	"time"

	"agentstateloop/turn/box"
)

// Lower bounds of [api.exec]. A shell with a pipe takes a few processes and some memory.
const (
	minProcesses = 16
	minMemory    = 64 // MiB
	minFileSize  = 1  // MiB
)

// checkExec checks [api.exec]. It rejects a folder that contains one of the agent's own files, and
// a folder inside the state.
func (c *Config) checkExec() error {
	s := c.File.API.Exec
	for _, n := range []struct {
		key         string
		value, from int
	}{{"api.exec.processes", s.Processes, minProcesses}, {"api.exec.memory", s.Memory, minMemory}, {"api.exec.file_size", s.FileSize, minFileSize}} {
		if n.value < n.from {
			return c.Wrong(n.key, "must be %d or more", n.from)
		}
	}
	for _, path := range s.Read {
		if err := c.checkGranted("api.exec.read", c.Resolve(path)); err != nil {
			return err
		}
	}
	return nil
}

// checkGranted checks a folder that key grants to a sandbox.
func (c *Config) checkGranted(key, path string) error {
	if err := box.Grantable(path); err != nil {
		return c.At(dotted(key), "name the folder of a tool, such as \"~/.nvm/versions\"", "%v", err)
	}
	// An agent with write access to the link's folder could point the link anywhere.
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		return c.At(dotted(key), "write "+real, "%s leads through a symbolic link", path)
	}
	kept := c.holdsOwn(path)
	for _, dir := range []string{c.stateFolder(), c.stateDir()} {
		if below(dir, path) {
			kept = dir
		}
	}
	if kept != "" {
		return c.At(dotted(key), "name a folder that holds only what programs need", "%s would give %s to programs in the box", path, kept)
	}
	return nil
}

// limits returns the limits of a sandbox.
func (s execSection) limits() box.Limits {
	return box.Limits{Processes: s.Processes, Memory: int64(s.Memory) << 20, FileSize: int64(s.FileSize) << 20, CPU: time.Duration(s.CPU)}
}

// ExecBox returns the sandbox that [api.exec] configures.
func (c *Config) ExecBox() box.Box {
	s := c.File.API.Exec
	b := box.Box{Network: s.Network, Limits: s.limits()}
	for _, path := range s.Read {
		b.Read = append(b.Read, c.Resolve(path))
	}
	return b
}
