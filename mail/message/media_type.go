package message

import (
	"mime"
	"net/http"
	"path"
	"strings"
)

// octetStream is the type of what is not known, or cannot be said.
const octetStream = "application/octet-stream"

// MediaType returns the media type of a file, without parameters: by the extension of its
// name, by a table of ours, and else by how its content begins. The table of the system
// is not asked, because it differs from machine to machine.
func MediaType(name string, head []byte) string {
	if t, ok := mediaTypes()[strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))]; ok {
		return t
	}
	t, _, err := mime.ParseMediaType(http.DetectContentType(head))
	if err != nil {
		return octetStream
	}
	return t
}

// maxMediaType is the longest media type, in bytes, that a mail of ours names.
const maxMediaType = 100

// partType returns the Content-Type of a file, without its name. A text that is UTF-8 says
// so. For any other text the reader's guess is as good as ours. A type of several parts,
// such as message/rfc822, must not be encoded (RFC 2045 section 6.4), but its bytes
// would not survive without: it goes as bytes.
func partType(kind string, isUTF8 bool) string {
	parsed, _, err := mime.ParseMediaType(kind)
	switch {
	case err != nil, strings.Count(parsed, "/") != 1, len(parsed) > maxMediaType, !IsASCII(parsed),
		strings.HasPrefix(parsed, "multipart/"), strings.HasPrefix(parsed, "message/"):
		return octetStream
	case strings.HasPrefix(parsed, "text/") && isUTF8:
		return parsed + "; charset=utf-8"
	}
	return parsed
}
