//go:build race

package mail

// raced says whether the race detector watches: long loops take forty times as
// long then.
const raced = true
