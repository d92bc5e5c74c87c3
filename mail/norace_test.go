//go:build !race

package mail

const raced = false
