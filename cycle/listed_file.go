package cycle

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"agentstateloop/cycle/prompt"
	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/turn"
)

// attachmentsFolder is the subfolder of the context folder for the files of the message.
const attachmentsFolder = "attachments"

// listedFile is an entry in the list of files that came with a message or a report
// (docs/design.md, "The text the agent sees").
type listedFile struct {
	name    string // ours, attachment-1.csv; on the mesh the sender's if it is safe
	title   string // the name that the sender gave it, or ""
	kind    string // the media type that the sender declared, or ""
	size    int64
	place   string // path in the context folder; "" if it is missing or is not put there
	missing string // why it is missing, or ""
}

// The limits of a list: a sender must not fill a prompt with names.
const (
	maxListed      = 50
	maxListedBytes = 8 << 10
)

// mediaTypePattern matches a media type that can be shown as it is.
var mediaTypePattern = lazy.NewRegexp(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,80}$`)

// line returns a file as one line, NAME (TITLE, TYPE, SIZE): PLACE. It leaves out a title that
// equals the name.
func (f listedFile) line() string {
	kind := f.kind
	if !mediaTypePattern.Get().MatchString(kind) {
		kind = "of unknown type"
	}
	about := kind + ", " + plain.Size(f.size)
	if f.missing != "" {
		return fmt.Sprintf("MISSING: %q (%s): %s", plain.Shorten(plain.Line(f.title), 120), about, plain.Line(f.missing))
	}
	if f.title != "" && f.title != f.name {
		about = plain.Name(f.title) + ", " + about
	}
	line := fmt.Sprintf("%s (%s)", f.name, about)
	if f.place != "" {
		line += ": " + f.place
	}
	return line
}

// listFiles returns the files, one a line, as a prompt lists them.
func listFiles(files []listedFile) string {
	var b strings.Builder
	for i, f := range files {
		line := f.line()
		if i == maxListed || b.Len()+len(line) > maxListedBytes {
			fmt.Fprintf(&b, "and %d more in the same folder\n", len(files)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// mailFiles puts the attachments of a mail into a subfolder of the context folder, and lists
// them.
func mailFiles(folder string, attachments []message.Attachment) (listed []listedFile, box []turn.File) {
	var names fileNames
	for _, a := range attachments {
		f := listedFile{name: a.Name, title: a.Title, kind: a.Type, size: int64(len(a.Data))}
		f.place = path.Join(folder, names.add(a.SendersName(), a.Name))
		listed = append(listed, f)
		box = append(box, turn.File{Name: f.place, Body: bytes.NewReader(a.Data)})
	}
	return listed, box
}

// fileNames names the files of one subfolder of the context folder.
type fileNames struct{ plain.FileNames }

// add returns the name of the next file: the sender's if it is safe, otherwise ours. A name
// that a prompt would alter is not safe.
func (n *fileNames) add(senders, ours string) string {
	if kept, _ := plain.FileName(senders); prompt.Alters(kept) {
		senders = ""
	}
	return n.Add(senders, ours)
}

// meshNames returns the names for the files of a mesh message in a folder.
func meshNames(files []mesh.File) (names []string) {
	var given fileNames
	for i, f := range files {
		ext := strings.ToLower(path.Ext(f.Name))
		if !plainExt.Get().MatchString(ext) {
			ext = ""
		}
		names = append(names, given.add(f.Name, fmt.Sprintf("attachment-%d%s", i+1, ext)))
	}
	return names
}

// plainExt matches an extension that one of our names can have.
var plainExt = lazy.NewRegexp(`^\.[a-z0-9]{1,8}$`)
