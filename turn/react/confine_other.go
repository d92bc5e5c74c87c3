//go:build !linux

package react

import "errors"

// Confine refuses: there is no Landlock here, and nothing is run unconfined.
func Confine([]string) error {
	return errors.New("exec is not to be had: programs can be confined on Linux only")
}
