package config

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"agentstateloop/turn/react"
)

// ToolTimeout limits the exec tool, and each tool that sets no timeout.
const ToolTimeout = time.Minute

// maxSchema limits the JSON schema of a tool, in bytes.
const maxSchema = 64 << 10

// programs returns the user's tools in the order of their names.
func (c *Config) programs() ([]react.Program, error) {
	var all []react.Program
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		program, err := c.program(name, c.File.Tools[name])
		if err != nil {
			return nil, err
		}
		all = append(all, program)
	}
	return all, nil
}

// program returns the user's tool with a name.
func (c *Config) program(name string, t toolSection) (react.Program, error) {
	key := "tools." + name
	program := react.Program{Name: name, Description: t.Description, Command: slices.Clone(t.Command), Timeout: ToolTimeout}
	switch {
	case len(t.Command) == 0:
		return program, c.Missing(key+".command", `set the program, such as ["./deploy.sh"]`)
	case t.Description == "":
		return program, c.Missing(key+".description", "describe for the model what the tool does")
	case t.Schema == "":
		return program, c.Missing(key+".schema", "name a file with the JSON schema of the tool's arguments")
	}
	program.Command[0] = c.resolveProgram(t.Command[0])
	var err error
	if program.Schema, err = readShort(c.Resolve(t.Schema), maxSchema); err != nil {
		return program, c.Wrong(key+".schema", "%v", err)
	}
	if t.Timeout > 0 {
		program.Timeout = time.Duration(t.Timeout)
	}
	if _, err := program.Tool(); err != nil {
		return program, c.Wrong(key, "%v", err)
	}
	return program, nil
}

var errTooLong = errors.New("not a regular file, or too long")

// readShort reads a regular file of at most limit bytes.
func readShort(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, &os.PathError{Op: "read", Path: path, Err: errTooLong}
	}
	return os.ReadFile(path)
}
