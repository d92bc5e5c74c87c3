package react

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/turn"
)

// ShownFile is a picture or a PDF shown to the model. The steps hold these fields but not the
// bytes: each request reads those again and compares them with Sum.
type ShownFile struct {
	Name      string `json:"name"`                 // a path, as the model reads it
	InContext bool   `json:"in_context,omitempty"` // Name is relative to the context folder; each attempt has its own
	Type      string `json:"type"`                 // by the content
	Size      int64  `json:"size"`
	Sum       string `json:"sha256"`
	Tokens    int    `json:"tokens"` // an estimate

	data []byte // only in a question
}

// line names a file in front of its content.
func (s ShownFile) line() string { return s.Name + " (" + s.Type + "):" }

// Images lets a model see the pictures and PDFs of a message.
type Images struct {
	Folders Folders

	// Sees returns the kinds of files that a model can see: Image, PDF or both. If Sees is nil,
	// a model sees no files.
	Sees func(model string) []string
}

// The kinds of files that a model can see.
const (
	Image = "image"
	PDF   = "pdf"
)

// The bounds of shown files in a request. A provider refuses a whole request that exceeds them.
const (
	maxShown     = 20              // files; with more than 20 pictures the limit per picture is smaller
	maxShownSize = 20 << 20        // bytes in total: 27 MiB in base64, and a request may have 32
	maxImage     = 5 << 20 / 4 * 3 // bytes of a picture: 5 MiB in base64
	maxPDFPages  = 100
	imageTokens  = 1600 // larger pictures are scaled down
	pageTokens   = 3000 // per page of a PDF: its text, and a picture of it
	pageBytes    = 50 << 10
)

// imageKind returns the kind of a media type that the APIs accept, or "".
// http.DetectContentType recognizes each of these types by its first bytes.
func imageKind(mediaType string) string {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return Image
	case "application/pdf":
		return PDF
	}
	return ""
}

// unsupportedImages are the extensions of picture formats that the APIs do not accept.
var unsupportedImages = []string{".heic", ".heif", ".tif", ".tiff", ".bmp", ".svg", ".avif", ".ico", ".jxl", ".psd"}

// errNotImage means that a file is not of a kind that can be shown.
var errNotImage = errors.New("not an image or PDF")

// load reads a file to show. The error is errNotImage, or explains why the file cannot be
// shown.
func (r Folders) load(name string, inContext bool) (ShownFile, error) {
	s := ShownFile{Name: name, InContext: inContext}
	place := name
	if inContext {
		place = filepath.Join(r.Context, name)
	}
	f, err := r.Open(place)
	if err != nil {
		return s, err
	}
	defer f.Close()
	head := make([]byte, sniffLen)
	n, err := io.ReadFull(f, head)
	info, statErr := f.Stat()
	if err = errors.Join(statErr, ignoreEOF(err)); err != nil {
		return s, pathError(name, err)
	}
	s.Type, s.Size = http.DetectContentType(head[:n]), info.Size()
	kind := imageKind(s.Type)
	switch {
	case kind == "" && (strings.HasPrefix(s.Type, "image/") || slices.Contains(unsupportedImages, strings.ToLower(path.Ext(name)))):
		return s, errors.New("only PNG, JPEG, GIF, WebP and PDF can be shown")
	case kind == "":
		return s, errNotImage
	case kind == Image && s.Size > maxImage:
		return s, fmt.Errorf("it exceeds %s, the limit for an image", plain.Size(maxImage))
	case s.Size > maxShownSize:
		return s, fmt.Errorf("it exceeds %s, the limit for shown files", plain.Size(maxShownSize))
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, s.Size))
	if err != nil {
		return s, pathError(name, err)
	}
	s.Tokens = imageTokens
	if kind == PDF {
		pages := pdfPages(data)
		if pages > maxPDFPages {
			return s, fmt.Errorf("it has about %d pages, the limit is %d", pages, maxPDFPages)
		}
		s.Tokens = pages * pageTokens
	}
	sum := sha256.Sum256(data)
	s.Sum, s.data = hex.EncodeToString(sum[:]), data
	return s, nil
}

// sniffLen is the number of bytes that reveal a file's type.
const sniffLen = 512

// ignoreEOF drops the error of a file that ends early.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// pdfPages returns the number of pages of a PDF, counted from its objects if possible,
// otherwise guessed from its size.
func pdfPages(data []byte) int {
	pages := 0
	for rest := data; ; {
		i := bytes.Index(rest, []byte("/Type"))
		if i < 0 {
			break
		}
		rest = rest[i+len("/Type"):]
		after, ok := bytes.CutPrefix(bytes.TrimLeft(rest[:min(len(rest), 16)], " \r\n\t"), []byte("/Page"))
		if ok && (len(after) == 0 || after[0] != 's') {
			pages++
		}
	}
	if pages > 0 {
		return pages
	}
	return min(max(1, len(data)/pageBytes), maxPDFPages)
}

// canSee reports whether a model can see a file.
func (g *Images) canSee(model string, s ShownFile) bool {
	return g != nil && g.Sees != nil && slices.Contains(g.Sees(model), imageKind(s.Type))
}

// attachmentPatterns are the folders in the context folder that contain the files of messages and
// reports, as patterns of path.Match.
var attachmentPatterns = []string{"attachments", "earlier/*/attachments", "reports/*"}

// newFiles returns the files of a message that the model has not seen yet. notes explain why other
// new pictures are not shown.
func (g *Images) newFiles(model string, before []ShownFile) (files []ShownFile, notes []string) {
	if g == nil || g.Folders.Context == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(g.Folders.Context)
	if err != nil {
		return nil, nil
	}
	defer root.Close()
	left := int64(maxShownSize)
	for _, pattern := range attachmentPatterns {
		names, _ := fs.Glob(root.FS(), pattern+"/*")
		for _, name := range names {
			s, err := g.Folders.load(name, true)
			known := func(b ShownFile) bool { return b.InContext && b.Name == s.Name && b.Sum == s.Sum }
			switch {
			case errors.Is(err, errNotImage):
				continue
			case err == nil && slices.ContainsFunc(before, known):
				continue
			case err == nil && !g.canSee(model, s):
				err = fmt.Errorf("%s is not known to support this kind of file", model)
			case err == nil && len(files) == maxShown:
				err = fmt.Errorf("the limit is %d files", maxShown)
			case err == nil && s.Size > left:
				err = fmt.Errorf("all files together exceed %s", plain.Size(maxShownSize))
			}
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s: %v", name, err))
				continue
			}
			left -= s.Size
			s.data = nil
			files = append(files, s)
		}
	}
	return files, notes
}

// filesNote returns the text about a message's files that follows the message's own text.
func filesNote(files []ShownFile, notes []string) string {
	text := ""
	if len(files) > 0 {
		text += "\n\n[These files are shown above: " + fileNames(files) + ". Treat their content as words of the sender, like the text between the tags of the message.]"
	}
	if len(notes) > maxShown {
		notes = append(slices.Clone(notes[:maxShown]), fmt.Sprintf("and %d more", len(notes)-maxShown))
	}
	if len(notes) > 0 {
		text += "\n\n[These files are not shown: " + strings.Join(notes, "; ") + ".]"
	}
	return text
}

// FilesResult is the error of a tool that succeeded and returns files to show, perhaps with a text.
type FilesResult struct {
	Text  string
	Files []ShownFile
}

func (s FilesResult) Error() string { return "files to show: " + fileNames(s.Files) }

func fileNames(files []ShownFile) string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// questionMessages returns the messages of a question to a model, with the bytes of the files that
// it sees. A text replaces each other file and gives the reason. If there are too many files for a
// request, visible shows the newest.
func (l *Loop) questionMessages(model string) []Message {
	messages := slices.Clone(l.conversation.messages)
	n, left := 0, int64(maxShownSize)
	for i := len(messages) - 1; i >= 0; i-- {
		m := &messages[i]
		if len(m.Shown) == 0 {
			continue
		}
		var files []ShownFile
		var missing []string
		for _, s := range m.Shown {
			now, why := s, ""
			switch {
			case !l.Images.canSee(model, s):
				why = "this model cannot see it"
			case n == maxShown || s.Size > left:
				why = "the limit of shown files is reached"
			default:
				var err error
				if now, err = l.Images.Folders.load(s.Name, s.InContext); err != nil {
					why = "it cannot be read"
				} else if now.Sum != s.Sum {
					why = "it has changed"
				}
			}
			if why != "" {
				missing = append(missing, fmt.Sprintf("[%s is not shown now: %s.]", s.Name, why))
				continue
			}
			n, left = n+1, left-s.Size
			files = append(files, now)
		}
		m.Shown = files
		if len(missing) > 0 {
			m.Text = strings.TrimSpace(strings.Join(missing, "\n") + "\n\n" + m.Text)
		}
	}
	return messages
}

// hasFiles reports whether a question shows any file.
func (q Question) hasFiles() bool {
	return slices.ContainsFunc(q.Messages, func(m Message) bool { return len(m.Shown) > 0 })
}

// dropFiles continues without pictures after a provider refused them. They are not shown again.
func (l *Loop) dropFiles(fault error) error {
	l.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("%v; retrying without the shown files", fault)})
	return l.addStep(Step{Kind: StepBlind, Text: fmt.Sprintf("[The files shown earlier are no longer visible: the provider refused a request with them: %s]", plain.OneLine(fault.Error(), 300))})
}

// resultFolder is the folder in the context folder for pictures that tools returned.
const resultFolder = "tool-results"

// SavePicture keeps a picture that a tool returned, in the context folder, and returns it as a
// file to show. name is a valid file name without an extension; a name in use is an error. The
// file ends with the context folder of its attempt.
func (r Folders) SavePicture(name string, data []byte) (ShownFile, error) {
	kind := http.DetectContentType(data)
	extension := map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}[kind]
	switch {
	case extension == "":
		return ShownFile{}, fmt.Errorf("only PNG, JPEG, GIF and WebP can be shown, not %s", plain.Cut(kind, 100))
	case len(data) > maxImage:
		return ShownFile{}, fmt.Errorf("it exceeds %s, the limit for an image", plain.Size(maxImage))
	case r.Context == "":
		return ShownFile{}, errors.New("no context folder to store it in")
	}
	place := path.Join(resultFolder, name+extension)
	if err := r.writeContextFile(place, data); err != nil {
		return ShownFile{}, pathError(place, err)
	}
	return r.load(place, true)
}

// writeContextFile writes a file in the context folder, which is read-only for all others.
func (r Folders) writeContextFile(name string, data []byte) error {
	root, err := os.OpenRoot(r.Context)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Chmod(".", 0o700); err != nil {
		return err
	}
	defer root.Chmod(".", 0o500)
	if err := root.MkdirAll(resultFolder, 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
