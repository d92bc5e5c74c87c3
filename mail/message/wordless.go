package message

import (
	"fmt"
	"strings"

	"agentstateloop/internal/plain"
)

// maxNamed is the maximum number of files that Instead names.
const maxNamed = 5

// Instead returns a replacement, in brackets, for the text of a mail without text of its own:
// that it is only a PDF, for example. It returns "" for any other mail.
func (c Content) Instead() string {
	if strings.TrimSpace(c.Text) != "" {
		return ""
	}
	var names []string
	kind := ""
	for _, a := range c.Attachments {
		if !a.isSeal() {
			names = append(names, plain.Name(a.SendersName()))
			kind = a.kind()
		}
	}
	text := "This mail has no text"
	switch n := len(names); {
	case n == 0 && c.Full == "":
		return "(This mail is empty: it has neither text nor files.)"
	case n == 0:
		return "(This mail has no text of its own, only what it quotes, or a signature.)"
	case n == 1:
		text += fmt.Sprintf(", only %s: %s.", kind, names[0])
	case n <= maxNamed:
		text += fmt.Sprintf(", only %d files: %s.", n, strings.Join(names, ", "))
	default:
		text += fmt.Sprintf(", only %d files: %s and %d more.", n, strings.Join(names[:maxNamed], ", "), n-maxNamed)
	}
	if c.Full != "" {
		text += " What it quotes, or its signature, is left out."
	}
	return "(" + text + ")"
}

// SendersName returns the sender's name for a file, otherwise our name.
func (a Attachment) SendersName() string {
	switch {
	case a.Title == "":
		return a.Name
	case a.Type == "message/rfc822" && !strings.HasSuffix(strings.ToLower(a.Title), ".eml"):
		return a.Title + ".eml" // its subject
	}
	return a.Title
}

// isSeal reports whether a part belongs to a signature or to encryption, and has no content for
// a reader.
func (a Attachment) isSeal() bool {
	switch a.Type {
	case "application/pgp-encrypted", "application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature":
		return true
	}
	return false
}

// kind returns the kind of a file, in words.
func (a Attachment) kind() string {
	main, _, _ := strings.Cut(a.Type, "/")
	switch {
	case a.Type == "application/pdf" || strings.HasSuffix(strings.ToLower(a.Title), ".pdf"):
		return "a PDF"
	case main == "image":
		return "a picture"
	case main == "audio":
		return "a sound"
	case main == "video":
		return "a video"
	case a.Type == "text/calendar":
		return "a calendar entry"
	case a.Type == "message/rfc822":
		return "a forwarded mail"
	}
	return "a file"
}
