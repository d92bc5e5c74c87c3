package message

import "testing"

// TestInstead checks what is said in place of a text, and which name and kind a file has.
func TestInstead(t *testing.T) {
	six := []Attachment{{Name: "1"}, {Name: "2"}, {Name: "3"}, {Name: "4"}, {Name: "5"}, {Name: "6"}}
	for _, tt := range []struct {
		c    Content
		want string
	}{
		{Content{Text: "hello", Full: "hello", Attachments: six}, ""},
		{Content{}, "(This mail is empty: it has neither text nor files.)"},
		{Content{Full: "> hello"}, "(This mail has no text of its own, only what it quotes, or a signature.)"},
		{Content{Full: "> hello", Attachments: six[:1]}, "(This mail has no text, only a file: 1. What it quotes, or its signature, is left out.)"},
		{Content{Attachments: []Attachment{{Name: "attachment-1.pdf", Type: "application/pdf"}}}, "(This mail has no text, only a PDF: attachment-1.pdf.)"},
		{Content{Attachments: []Attachment{{Name: "attachment-1.pdf", Type: "image/x", Title: "moon.PDF"}}}, "(This mail has no text, only a PDF: moon.PDF.)"},
		{Content{Attachments: []Attachment{{Type: "message/rfc822", Title: "moon"}}}, "(This mail has no text, only a forwarded mail: moon.eml.)"},
		{Content{Attachments: []Attachment{{Type: "message/rfc822", Title: "moon.EML"}}}, "(This mail has no text, only a forwarded mail: moon.EML.)"},
		{Content{Attachments: []Attachment{{Name: "seal", Type: "application/pgp-signature"}, {Name: "1", Type: "image/png"}}}, "(This mail has no text, only a picture: 1.)"},
		{Content{Attachments: six}, "(This mail has no text, only 6 files: 1, 2, 3, 4, 5 and 1 more.)"},
	} {
		if got := tt.c.Instead(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.c, got, tt.want)
		}
	}
}
