package state

import "strings"

// The origins of an order that did not come by mail, as reasons in the history.
const (
	ByHand = "by hand"     // at the terminal
	OnPage = "on the page" // on the page of `listen`
)

// onPageSuffix follows the name of a user who wrote on the page.
const onPageSuffix = " (" + OnPage + ")"

// PageUser returns the sender of a message or an answer that a user wrote on the page.
func PageUser(user string) string { return user + onPageSuffix }

// WroteOnPage reports whether a message or an answer with this source and sender was written on the
// page.
func WroteOnPage(source Source, from string) bool {
	return source == CLI && strings.HasSuffix(from, onPageSuffix)
}
