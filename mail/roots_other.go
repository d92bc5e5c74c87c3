//go:build !linux

package mail

import (
	"errors"
	"os"
)

// openBundle returns an error: on other systems than Linux no root is remembered.
func openBundle() (*os.File, error) { return nil, errors.ErrUnsupported }
