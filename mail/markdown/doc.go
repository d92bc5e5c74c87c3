// Package markdown renders the HTML part of an answer from its Markdown text, as a page for a
// phone (docs/decisions/0042-formatted-mail-and-file-names.md).
//
// Goldmark parses the text. We write the HTML ourselves, so it contains only the tags,
// attributes and styles in this package; everything else is escaped text. A mail program that
// displays the page fetches no address in it.
package markdown
