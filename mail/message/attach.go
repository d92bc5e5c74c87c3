package message

import (
	"fmt"
	"strings"
)

// The limits of the charsets tried for raw bytes in a name.
const (
	maxHints = 3
	maxLabel = 39 // bytes of the name of a charset
)

// charsetsOf returns the charsets of the encoded words in Subject and From, other than UTF-8.
func charsetsOf(raw []byte) (labels []string) {
	for _, f := range Fields(raw) {
		if f.Name != "subject" && f.Name != "from" {
			continue
		}
		if _, word, ok := strings.Cut(f.Value, "=?"); ok && len(labels) < maxHints {
			if label, _, _ := strings.Cut(word, "?"); len(label) <= maxLabel && !utf8Label(label) {
				labels = append(labels, label)
			}
		}
	}
	return labels
}

func (c *contentReader) attach(e entity) {
	if e.mediaType == "message/rfc822" && e.title == "" {
		for _, f := range Fields(e.body) {
			if f.Name == "subject" {
				e.title = shortTitle(oneLine(decodeTitle(f.Value), maxParsed))
			}
		}
	}
	if why := sealed(e); why != "" {
		c.problem("%s", why)
	}
	c.out.Attachments = append(c.out.Attachments, Attachment{
		Name:  fmt.Sprintf("attachment-%d%s", len(c.out.Attachments)+1, extension(e)),
		Type:  e.mediaType,
		Data:  c.decode(e),
		Title: e.title,
	})
}

// maxExtension is the maximum length of a sender's extension that our name of a file adopts.
const maxExtension = 8

// extension returns the sender's extension if it is short and plain, and otherwise one for the
// type.
func extension(e entity) string {
	if i := strings.LastIndexByte(e.title, '.'); i >= 0 {
		ext := strings.ToLower(e.title[i+1:])
		plain := len(ext) > 0 && len(ext) <= maxExtension
		for _, r := range ext {
			plain = plain && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
		}
		if plain {
			return "." + ext
		}
	}
	return commonExtension(e.mediaType)
}

// commonExtension returns the extension of a media type, or ".bin". The table is our own,
// because the system's table differs from machine to machine.
func commonExtension(mediaType string) string {
	switch mediaType {
	case "application/json":
		return ".json"
	case "application/pdf":
		return ".pdf"
	case "application/zip":
		return ".zip"
	case "image/gif":
		return ".gif"
	case "image/jpeg":
		return ".jpg"
	case "image/png":
		return ".png"
	case "image/svg+xml":
		return ".svg"
	case "message/rfc822":
		return ".eml"
	case "text/calendar":
		return ".ics"
	case "text/csv":
		return ".csv"
	case "text/html":
		return ".html"
	case "text/plain":
		return ".txt"
	}
	return ".bin"
}

// sealed returns the reason why the content of a part cannot be read here, or "".
func sealed(e entity) string {
	switch {
	case e.mediaType == "application/ms-tnef", e.mediaType == "application/vnd.ms-tnef", strings.EqualFold(e.title, "winmail.dat"):
		return "winmail.dat is in a format of Outlook's own (TNEF): the files in it cannot be read here"
	case e.mediaType == "application/pkcs7-mime" || e.mediaType == "application/x-pkcs7-mime":
		if strings.EqualFold(e.params["smime-type"], "signed-data") {
			return "the mail is one file with its signature (S/MIME), and cannot be read here"
		}
		return "the mail is encrypted (S/MIME), and cannot be read here"
	case e.mediaType == "message/partial":
		return "the mail is one piece of a larger one (message/partial)"
	case e.mediaType == "message/external-body":
		return "a file was not sent along: the mail only says where it is (message/external-body)"
	}
	return ""
}
