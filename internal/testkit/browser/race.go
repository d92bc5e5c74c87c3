//go:build race

package browser

// underRace is true with the race detector, which is slow and says nothing about a page.
const underRace = true
