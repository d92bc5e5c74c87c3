// Package markdown makes the HTML part of an answer from its text: Markdown in, a page for
// a phone out (docs/decisions/0042-answers-on-a-phone.md).
//
// Goldmark reads the text. We write the HTML ourselves, so it holds only the tags,
// attributes and styles that stand in this package; all else is escaped text. No address
// in it is fetched when it is shown.
package markdown
