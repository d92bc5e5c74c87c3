//go:build !linux

package react

import "errors"

// Confine returns an error: Landlock is missing here, and nothing runs unconfined.
func Confine([]string) error {
	return errors.New("exec is not available: programs can be confined on Linux only")
}
