package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// InPath returns the path of a program found in a PATH such as "/usr/bin:/bin", or "".
func InPath(program, path string) string {
	for dir := range strings.SplitSeq(path, ":") {
		if file := filepath.Join(dir, program); CanRun(file) {
			return file
		}
	}
	return ""
}

// CanRun reports whether file is the absolute path of an executable file.
func CanRun(file string) bool {
	info, err := os.Stat(file)
	return filepath.IsAbs(file) && err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// QuoteGlob returns a filepath.Glob pattern that matches only path.
func QuoteGlob(path string) string {
	var quoted []byte
	for i := range len(path) {
		if slices.Contains([]byte(`*?[\`), path[i]) {
			quoted = append(quoted, '\\')
		}
		quoted = append(quoted, path[i])
	}
	return string(quoted)
}

// Resolve makes a path absolute. "~" is the user's home directory in passwd. A relative path starts
// at the folder of the configuration.
func (c *Config) Resolve(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		return filepath.Join(c.home, path[1:])
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(c.Path), path)
}

// resolveProgram makes the path of a program absolute. It returns a name without a slash unchanged,
// for the system to look up in PATH.
func (c *Config) resolveProgram(program string) string {
	if strings.Contains(program, "/") {
		return c.Resolve(program)
	}
	return program
}
