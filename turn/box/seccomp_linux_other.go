//go:build linux && !amd64

package box

import "golang.org/x/sys/unix"

// refusedHere are refused calls that only this architecture has.
func refusedHere() []uint32 { return nil }

// modeRulesHere are modeRules for calls that only this architecture has.
func modeRulesHere() []unix.SockFilter { return nil }
