//go:build race

package message

// raced says whether the race detector watches: long loops take forty times as
// long then.
const raced = true
