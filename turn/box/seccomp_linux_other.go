//go:build linux && !amd64

package box

import "golang.org/x/sys/unix"

// refusedHere are refused calls that only this machine has.
func refusedHere() []uint32 { return nil }

// modeRulesHere are those of modeRules for the calls that only this machine has.
func modeRulesHere() []unix.SockFilter { return nil }
