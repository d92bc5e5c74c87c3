//go:build race

package message

// raced reports whether the race detector is on. Long loops then take forty times
// as long.
const raced = true
