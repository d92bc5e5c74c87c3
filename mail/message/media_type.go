package message

import (
	"mime"
	"net/http"
	"path"
	"strings"
)

// octetStream is the type of a file whose type is unknown or cannot be sent.
const octetStream = "application/octet-stream"

// MediaType returns the media type of a file, without parameters. It looks up the extension of
// its name in our table, and otherwise looks at the beginning of its content. It does not use
// the table of the system, which differs from machine to machine.
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

// maxMediaType is the maximum length, in bytes, of a media type in a mail of ours.
const maxMediaType = 100

// partType returns the Content-Type of a file, without its name. It labels a UTF-8 text as
// such. For any other text the reader's guess is as good as ours. A type of several parts, such
// as message/rfc822, must not be encoded (RFC 2045 section 6.4), but its bytes would not
// survive unencoded. Such a file is sent as octetStream.
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
