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

// attachmentsFolder is the folder of the context box for what came with the message.
const attachmentsFolder = "attachments"

// listedFile is a file that came with a message or a report, as it is listed
// (docs/design.md, "The text the agent sees").
type listedFile struct {
	name    string // ours, attachment-1.csv; on the mesh the sender's where it is safe
	title   string // as its sender wrote it; "" for none
	kind    string // its media type, as its sender says; "" if they do not
	size    int64
	place   string // in the context box; "" if it is missing or in no box
	missing string // why, or ""
}

// What a list shows. A sender must not fill a prompt with names.
const (
	maxListed      = 50
	maxListedBytes = 8 << 10
)

// mediaTypePattern matches a media type that can be shown as it is.
var mediaTypePattern = lazy.NewRegexp(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,80}$`)

// line returns a file as one line, NAME (TITLE, TYPE, SIZE): PLACE. The title is left out
// where it is the name.
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

// mailFiles puts the attachments of a mail into a folder of the context box, and lists
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

// fileNames names the files of one folder of the context box.
type fileNames struct{ plain.FileNames }

// add returns the name of the next file: the sender's where that is safe, which it is not
// if a prompt would show it changed.
func (n *fileNames) add(senders, ours string) string {
	if kept, _ := plain.FileName(senders); prompt.Alters(kept) {
		senders = ""
	}
	return n.Add(senders, ours)
}

// meshNames returns the names under which the files of a message of the mesh lie in a
// folder.
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

// plainExt matches an extension that a name of ours can have.
var plainExt = lazy.NewRegexp(`^\.[a-z0-9]{1,8}$`)

// fenced returns the text of one message, with what was wrong with its mail and with the
// list of its files.
func (m turnMessage) fenced(fences prompt.Fences) string {
	text := m.text
	if n := len(m.content.Problems); n > 0 {
		told := m.content.Problems[:min(n, maxProblems)]
		text += "\n\n(Not all of this mail could be read as it was meant: " + strings.Join(told, "; ")
		if n > maxProblems {
			text += fmt.Sprintf("; and %d more", n-maxProblems)
		}
		text += ".)"
	}
	return fences.Message(text, listFiles(m.came))
}

// What a prompt tells of one message: so many problems of its structure, and later, in the
// past exchanges, so many of its files.
const (
	maxProblems   = 3
	maxRemembered = 10
)

// textAndFiles returns the text of one message as it is remembered, with the names of its
// files, so that a search for one of them finds it.
func (m turnMessage) textAndFiles() string {
	var files []string
	for _, a := range m.content.Attachments {
		files = append(files, fmt.Sprintf("%s (%s)", plain.Name(a.SendersName()), plain.Size(int64(len(a.Data)))))
	}
	for _, f := range m.sent.Files {
		files = append(files, fmt.Sprintf("%s (%s)", plain.Name(f.Name), plain.Size(f.Size)))
	}
	if n := len(files); n > maxRemembered {
		files = append(files[:maxRemembered], fmt.Sprintf("and %d more", n-maxRemembered))
	}
	if len(files) == 0 {
		return m.text
	}
	return "(Files: " + strings.Join(files, ", ") + ")\n\n" + m.text // a long text is truncated
}
