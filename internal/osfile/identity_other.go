//go:build !linux && !darwin && !freebsd

package osfile

import "os"

// Identify returns the unknown identity.
func Identify(*os.File) Identity { return Identity{} }
