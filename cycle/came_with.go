package cycle

import (
	"bytes"
	"io"

	"agentstateloop/mail/message"
	"agentstateloop/state/store"
)

// ReceivedFile is a file that came with a message, or goes with one.
type ReceivedFile struct {
	Name    string  `json:"name"`    // ours, attachment-1.csv; on the mesh the sender's if it is safe
	Title   string  `json:"title"`   // the name that the sender gave it, or ""
	Type    string  `json:"type"`    // the media type that the sender declared
	Size    int64   `json:"size"`    // in bytes
	Path    *string `json:"path"`    // of its bytes as a file, or null
	Missing string  `json:"missing"` // why it is missing, or ""

	saveAs string // the sender's name if it is safe, otherwise ours
	open   func() (io.ReadCloser, error)
}

// Line formats a file as one line, as a prompt lists it, but without its place.
func (f ReceivedFile) Line() string {
	return listedFile{name: f.Name, title: f.Title, kind: f.Type, size: f.Size, missing: f.Missing}.line()
}

// CameWith lists the files and the notes that came with the text of a message.
type CameWith struct {
	Files    []ReceivedFile // never nil
	Problems []string       // problems of a mail's structure; never nil
	LeftOut  string         // a note about the lines of a mail that only full.txt has, or ""
	Instead  string         // the note that replaces the text of a mail without text of its own, or ""
}

// cameWithMail returns the files and notes of a mail.
func cameWithMail(content message.Content) CameWith {
	came := CameWith{Files: []ReceivedFile{}, Problems: append([]string{}, content.Problems...), LeftOut: content.Left.String(), Instead: content.Instead()}
	listed, _ := mailFiles("", content.Attachments)
	for i, l := range listed {
		data := content.Attachments[i].Data
		came.Files = append(came.Files, ReceivedFile{
			Name: l.name, Title: l.title, Type: l.kind, Size: l.size, saveAs: l.place,
			open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		})
	}
	return came
}

// inStore gives a file its path in the state directory, where it is kept under the name at. A
// missing file stays as it is.
func inStore(st *store.Store, f ReceivedFile, at string) ReceivedFile {
	if f.Missing != "" {
		return f
	}
	file := st.Path(at)
	f.Path = &file
	f.open = func() (io.ReadCloser, error) { return st.Open(at) }
	return f
}
