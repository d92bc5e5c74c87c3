package message

import (
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

	"agentstateloop/internal/plain"
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
	if why := unreadableReason(e); why != "" {
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
	case "application/json", "application/pdf", "application/zip", "image/gif", "image/png", "text/csv", "text/html":
		return "." + path.Base(mediaType)
	case "image/jpeg":
		return ".jpg"
	case "image/svg+xml":
		return ".svg"
	case "message/rfc822":
		return ".eml"
	case "text/calendar":
		return ".ics"
	case "text/plain":
		return ".txt"
	}
	return ".bin"
}

// unreadableReason returns the reason why the content of a part cannot be read here, or "".
func unreadableReason(e entity) string {
	switch {
	case e.mediaType == "application/ms-tnef", e.mediaType == "application/vnd.ms-tnef", strings.EqualFold(e.title, "winmail.dat"):
		return "the files in winmail.dat are in Outlook's own format (TNEF), which is not supported"
	case e.mediaType == "application/pkcs7-mime" || e.mediaType == "application/x-pkcs7-mime":
		if strings.EqualFold(e.params["smime-type"], "signed-data") {
			return "the mail is in the opaque S/MIME format (signed-data), which is not supported"
		}
		return "the mail is encrypted (S/MIME) and cannot be decrypted here"
	case e.mediaType == "message/partial":
		return "the mail is only one fragment of a larger mail (message/partial)"
	case e.mediaType == "message/external-body":
		return "a file is missing: the mail has only its location (message/external-body)"
	}
	return ""
}

// maxNamed is the maximum number of files that Placeholder names.
const maxNamed = 5

// Placeholder returns a replacement, in brackets, for the text of a mail without text of its own:
// that it is only a PDF, for example. It returns "" for any other mail.
func (c Content) Placeholder() string {
	if strings.TrimSpace(c.Text) != "" {
		return ""
	}
	var names []string
	kind := ""
	for _, a := range c.Attachments {
		if !a.isSecurityPart() {
			names = append(names, plain.Name(a.SendersName()))
			kind = a.kind()
		}
	}
	text := "This mail has no text"
	switch n := len(names); {
	case n == 0 && c.Full == "":
		return "(This mail is empty: it has neither text nor files.)"
	case n == 0:
		return "(This mail has no text of its own, only quoted text or a signature.)"
	case n == 1:
		text += fmt.Sprintf(", only %s: %s.", kind, names[0])
	case n <= maxNamed:
		text += fmt.Sprintf(", only %d files: %s.", n, strings.Join(names, ", "))
	default:
		text += fmt.Sprintf(", only %d files: %s and %d more.", n, strings.Join(names[:maxNamed], ", "), n-maxNamed)
	}
	if c.Full != "" {
		text += " Its quoted text or signature is left out."
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

// isSecurityPart reports whether a part belongs to a signature or to encryption, and has no
// content for a reader.
func (a Attachment) isSecurityPart() bool {
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
		return "an audio file"
	case main == "video":
		return "a video"
	case a.Type == "text/calendar":
		return "a calendar entry"
	case a.Type == "message/rfc822":
		return "a forwarded mail"
	}
	return "a file"
}

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

// mediaTypes returns the types by extension. It is built on first use, because most polls send
// no file.
var mediaTypes = sync.OnceValue(func() map[string]string {
	types := map[string]string{}
	for line := range strings.Lines(extensions) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		for ext := range strings.FieldsSeq(rest) {
			types[ext] = kind
		}
	}
	return types
})

// extensions are the types registered with IANA, and for other extensions those of browsers and
// of the shared table of freedesktop.org.
const extensions = `application/epub+zip epub
application/geo+json geojson
application/gzip gz tgz
application/java-archive jar
application/json json map
application/ld+json jsonld
application/msword doc dot
application/octet-stream bin dat
application/ogg ogx
application/pdf pdf
application/pgp-encrypted gpg pgp
application/pgp-signature sig asc
application/pkcs7-mime p7m
application/pkcs7-signature p7s
application/pkix-cert cer crt
application/postscript ps eps ai
application/rss+xml rss
application/rtf rtf
application/sql sql
application/toml toml
application/vnd.android.package-archive apk
application/vnd.apache.parquet parquet
application/vnd.apple.mpegurl m3u8
application/vnd.debian.binary-package deb
application/vnd.google-earth.kml+xml kml
application/vnd.google-earth.kmz kmz
application/vnd.microsoft.portable-executable exe dll
application/vnd.ms-excel xls
application/vnd.ms-excel.sheet.macroEnabled.12 xlsm
application/vnd.ms-outlook msg
application/vnd.ms-powerpoint ppt
application/vnd.ms-word.document.macroEnabled.12 docm
application/vnd.oasis.opendocument.graphics odg
application/vnd.oasis.opendocument.presentation odp
application/vnd.oasis.opendocument.spreadsheet ods
application/vnd.oasis.opendocument.text odt
application/vnd.openxmlformats-officedocument.presentationml.presentation pptx
application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx
application/vnd.openxmlformats-officedocument.wordprocessingml.document docx
application/vnd.openxmlformats-officedocument.wordprocessingml.template dotx
application/vnd.rar rar
application/vnd.sqlite3 sqlite sqlite3
application/wasm wasm
application/x-7z-compressed 7z
application/x-bzip2 bz2
application/x-ipynb+json ipynb
application/x-iso9660-image iso
application/x-ndjson jsonl ndjson
application/x-pem-file pem
application/x-rpm rpm
application/x-sh sh bash
application/x-tar tar
application/x-tex tex
application/x-xz xz txz
application/xhtml+xml xhtml
application/xml xml xsd xsl
application/yaml yaml yml
application/zip zip
application/zstd zst
audio/aac aac
audio/flac flac
audio/midi mid midi
audio/mp4 m4a
audio/mpeg mp3
audio/ogg oga ogg opus
audio/vnd.wave wav
audio/webm weba
font/otf otf
font/ttf ttf
font/woff woff
font/woff2 woff2
image/apng apng
image/avif avif
image/bmp bmp
image/gif gif
image/heic heic
image/heif heif
image/jpeg jpg jpeg jpe jfif
image/jxl jxl
image/png png
image/svg+xml svg
image/tiff tif tiff
image/vnd.adobe.photoshop psd
image/vnd.djvu djvu
image/vnd.dxf dxf
image/vnd.microsoft.icon ico
image/webp webp
message/rfc822 eml
model/gltf-binary glb
model/gltf+json gltf
model/obj obj
model/stl stl
text/calendar ics ifb
text/css css
text/csv csv
text/html html htm
text/javascript js mjs
text/markdown md markdown
text/plain txt text log conf cfg ini env nfo rst adoc org
text/tab-separated-values tsv
text/vcard vcf
text/vtt vtt
text/x-c c h
text/x-c++ cc cpp cxx hpp hh
text/x-diff diff patch
text/x-go go
text/x-java java
text/x-kotlin kt
text/x-perl pl pm
text/x-php php
text/x-python py
text/x-ruby rb
text/x-rust rs
text/x-typescript ts tsx
video/3gpp 3gp
video/matroska mkv
video/mp4 mp4 m4v
video/mpeg mpg mpeg
video/ogg ogv
video/quicktime mov
video/vnd.avi avi
video/webm webm
video/x-ms-wmv wmv
`
