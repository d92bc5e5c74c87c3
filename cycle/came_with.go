package cycle

import (
	"bytes"
	"io"
	"os"
	"path"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail/message"
	"agentstateloop/state"
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

// CameWith returns the files and notes of a message. The error wraps store.ErrDamaged if the
// payload is damaged. An attachment of a mail has a path only while the turn of the mail runs:
// the context folder holds it then. At other times it is in the mail alone.
func (a *Agent) CameWith(m state.Message) (CameWith, error) {
	read, err := readMessage(a.Store, state.Head{}, m)
	came := incomingFiles{a.Store}.ofMessage(read)
	if err != nil || m.Source != state.Mail {
		return came, err
	}
	s, err := a.Store.Read()
	if err != nil {
		return came, err
	}
	if folder := attachmentsOf(s, m.Key); folder != "" {
		for i, f := range came.Files {
			file := a.Store.Path(path.Join(folder, f.saveAs))
			if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
				came.Files[i].Path = &file
			}
		}
	}
	return came, nil
}

// ofMessage returns the files and notes of a message.
func (fs incomingFiles) ofMessage(m turnMessage) CameWith {
	if m.msg.Source == state.Mail {
		return cameWithMail(m.content)
	}
	return CameWith{Files: append([]ReceivedFile{}, fs.kept(m.msg.Key, m.sent.Files)...), Problems: []string{}}
}

// attachmentsOf returns the folder with the attachments of a mail whose turn runs, or "".
func attachmentsOf(s state.State, key string) string {
	if s.Turn.Status == state.HeadIdle {
		return ""
	}
	box := path.Join(attemptDir(s.Turn.TurnID, s.Turn.Epoch), "context")
	if s.Turn.Key == key {
		return path.Join(box, attachmentsFolder)
	}
	for i, other := range s.Collected() {
		if other.Key == key {
			return path.Join(box, earlierFolder(i), attachmentsFolder)
		}
	}
	return ""
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

// CameWithQuarantined returns the files and notes of a message in quarantine. It returns no
// files for a damaged message.
func (a *Agent) CameWithQuarantined(item quarantine.Item) CameWith {
	if item.Source == state.Mail {
		if raw, err := a.Store.ReadSummed(item.Payload, item.Sum); err == nil {
			return cameWithMail(contentOf(a.Store, raw))
		}
	}
	return CameWith{Files: heldFiles{a.Store}.received(item), Problems: []string{}}
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
