package box

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Grantable returns an error if path cannot be in Read or Write, or nil. It looks only at the
// text of the path.
func Grantable(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s is not an absolute path", path)
	}
	path = filepath.Clean(path)
	if slices.Contains([]string{"/", "/etc", "/run", "/var/run", "/bin", "/sbin", "/lib", "/lib64"}, path) {
		return fmt.Errorf("%s holds more than a program in a box may see; name a folder in it", path)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return fmt.Errorf("%s is the machine's own; a box cannot have it", path)
		}
	}
	return nil
}
