//go:build !linux

package mail

import (
	"errors"
	"os"
)

// openBundle returns an error: roots are remembered only on Linux.
func openBundle() (*os.File, error) { return nil, errors.ErrUnsupported }
