package mesh

import (
	"encoding/hex"
	"fmt"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of the files of a message.
const (
	MaxFiles      = 16
	MaxFile       = 16 << 20 // bytes of one file
	MaxFilesBytes = 32 << 20 // bytes of all files of a message

	maxFileName = 255 // bytes
	maxFileType = 127 // bytes
)

// File is a file that comes with a message. The mesh keeps its bytes under their sum.
type File struct {
	SHA256 string `json:"sha256"` // in lower-case hexadecimal
	Name   string `json:"name"`   // without a folder
	Type   string `json:"type,omitempty"`
	Size   int64  `json:"size"`

	// Missing is set only by the recipient: why it took the message without the file.
	Missing string `json:"missing,omitempty"`
}

// CheckFiles returns an error unless a message can name these files.
func CheckFiles(files []File) error {
	if len(files) > MaxFiles {
		return fmt.Errorf("there are more than %d files", MaxFiles)
	}
	var total int64
	for _, f := range files {
		switch {
		case !validSum(f.SHA256):
			return fmt.Errorf("the sha256 of a file must be 64 hexadecimal digits in lower case")
		case !ValidFileName(f.Name):
			return fmt.Errorf("the name of a file must have 1 to %d bytes that can be printed, and no slash", maxFileName)
		case !ValidFileType(f.Type):
			return fmt.Errorf("the type of a file must be like text/plain, and have at most %d bytes", maxFileType)
		case f.Size < 0 || f.Size > MaxFile:
			return fmt.Errorf("a file has more than %d MiB", MaxFile>>20)
		}
		total += f.Size
	}
	if total > MaxFilesBytes {
		return fmt.Errorf("the files have more than %d MiB together", MaxFilesBytes>>20)
	}
	return nil
}

// validSum reports whether s is a SHA-256 in the form of File.SHA256. It is safe in a path.
func validSum(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == 32 && hex.EncodeToString(sum) == s
}

// ValidFileName reports whether a file can have this name, and whether the name can be shown to
// a person.
func ValidFileName(name string) bool {
	return name != "" && len(name) <= maxFileName && utf8.ValidString(name) && strings.Trim(name, ". ") != "" &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsPrint(r) })
}

// ValidFileType reports whether t is "" or a media type, such as text/plain, without
// parameters.
func ValidFileType(t string) bool {
	if t == "" {
		return true
	}
	parsed, parameters, err := mime.ParseMediaType(t)
	return err == nil && parsed == t && len(parameters) == 0 && len(t) <= maxFileType && strings.Count(t, "/") == 1
}
