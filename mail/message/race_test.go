//go:build race

package message

// raceEnabled reports whether the race detector is on. It makes long loops forty times slower.
const raceEnabled = true
