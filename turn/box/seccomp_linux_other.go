//go:build linux && !amd64

package box

import "golang.org/x/sys/unix"

// archRefusedCalls are refused calls that only this architecture has.
func archRefusedCalls() []uint32 { return nil }

// archModeRules are modeRules for calls that only this architecture has.
func archModeRules() []unix.SockFilter { return nil }
