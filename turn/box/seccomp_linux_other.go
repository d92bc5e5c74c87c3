//go:build linux && !amd64

package box

// refusedHere are refused calls that only this machine has.
func refusedHere() []uint32 { return nil }
