package config

import (
	"os"
	"path/filepath"

	"agentstateloop/commands/terminal"
)

// fileName is the default name of a configuration.
const fileName = "agent.toml"

// Find returns the absolute path of the configuration: the first of flag, $AGENTSTATELOOP_CONFIG,
// ./agent.toml and the file in the user's configuration folder. It does not check that the first
// two exist. It skips the other two if they are missing.
func (l *Loader) Find(flag string) (string, error) {
	for _, path := range []string{flag, l.Env("AGENTSTATELOOP_CONFIG")} {
		if path != "" {
			return filepath.Abs(path)
		}
	}
	if _, err := os.Stat(fileName); err == nil {
		return filepath.Abs(fileName)
	}
	path, err := l.UserFile()
	if err != nil {
		return "", terminal.Usagef("set HOME to your home directory, or name your configuration with --config FILE",
			"no configuration found: %s does not exist in this folder, and your home directory is unknown: %v", fileName, err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", terminal.Usagef("run `agentstateloop init` to create one, or name yours with --config FILE",
			"no configuration found: neither %s nor %s exists", fileName, path)
	}
	return filepath.Abs(path)
}

// UserFile returns the path of agent.toml in the user's configuration folder. That folder is
// $XDG_CONFIG_HOME, or ~/.config if the variable is not an absolute path.
func (l *Loader) UserFile() (string, error) {
	dir := l.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := l.Home()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, terminal.Program, fileName), nil
}
