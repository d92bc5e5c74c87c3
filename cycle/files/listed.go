package files

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode"

	"agentstateloop/cycle/prompt"
	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/turn"

	"golang.org/x/text/unicode/norm"
)

// AttachmentsFolder is the subfolder of the context folder for the files of the message.
const AttachmentsFolder = "attachments"

// ListedFile is an entry in the list of files that came with a message or a report
// (docs/protocol.md, "The text the agent sees").
type ListedFile struct {
	Name    string // ours, attachment-1.csv; on the mesh the sender's if it is safe
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

// Line returns a file as one line, NAME (TITLE, TYPE, SIZE): PLACE. It leaves out a title that
// equals the name.
func (f ListedFile) Line() string {
	kind := f.kind
	if !mediaTypePattern.Get().MatchString(kind) {
		kind = "of unknown type"
	}
	about := kind + ", " + plain.Size(f.size)
	if f.missing != "" {
		return fmt.Sprintf("MISSING: %q (%s): %s", plain.Shorten(plain.Line(f.title), 120), about, plain.Line(f.missing))
	}
	if f.title != "" && f.title != f.Name {
		about = plain.Name(f.title) + ", " + about
	}
	line := fmt.Sprintf("%s (%s)", f.Name, about)
	if f.place != "" {
		line += ": " + f.place
	}
	return line
}

// List returns the files, one a line, as a prompt lists them.
func List(files []ListedFile) string {
	var b strings.Builder
	for i, f := range files {
		line := f.Line()
		if i == maxListed || b.Len()+len(line) > maxListedBytes {
			fmt.Fprintf(&b, "and %d more in the same folder\n", len(files)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// FromMail puts the attachments of a mail into a subfolder of the context folder, and lists
// them.
func FromMail(folder string, attachments []message.Attachment) (listed []ListedFile, box []turn.File) {
	var names fileNames
	for _, a := range attachments {
		f := ListedFile{Name: a.Name, title: a.Title, kind: a.Type, size: int64(len(a.Data))}
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
	if name, _ := plain.FileName(senders); prompt.Alters(name) {
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

// SentNames returns the names, without folders, under which files of an output folder are sent.
// A file keeps its own name unless two names collide, which they also do if they differ only in
// case or in the form of their accents. Then a file in a subfolder gets the folder's name in
// front, as in "a-report.pdf", and any other file a number at the end.
func SentNames(names []string) []string {
	sent := make([]string, len(names))
	count, taken := map[string]int{}, map[string]bool{}
	for _, name := range names {
		count[foldName(path.Base(name))]++
	}
	take := func(i int, name string) {
		name = message.FileName(name, i+1)
		ext := path.Ext(name)
		stem := plain.Cut(strings.TrimSuffix(name, ext), 200)
		for n := 2; taken[foldName(name)]; n++ {
			name = message.FileName(fmt.Sprintf("%s-%d%s", stem, n, ext), i+1)
		}
		taken[foldName(name)] = true
		sent[i] = name
	}
	apart := func(name string) bool { return strings.Contains(name, "/") && count[foldName(path.Base(name))] > 1 }
	for i, name := range names {
		if !apart(name) {
			take(i, path.Base(name))
		}
	}
	for i, name := range names {
		if apart(name) {
			take(i, strings.ReplaceAll(name, "/", "-"))
		}
	}
	return sent
}

// foldName maps all names that some system considers equal to the same text.
func foldName(name string) string {
	return norm.NFC.String(strings.ToLower(norm.NFC.String(message.FileName(name, 0))))
}

// MeshName returns a name for the mesh, without unprintable characters.
func MeshName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name)
}
