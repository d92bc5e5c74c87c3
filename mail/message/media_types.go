package message

import (
	"strings"
	"sync"
)

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
