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

// Shown is a picture or a PDF that the model is shown. The steps hold this much of it: its
// bytes are read again for each request, and compared with their sum.
type Shown struct {
	Name      string `json:"name"`                 // a path, as the model reads it
	InContext bool   `json:"in_context,omitempty"` // it begins in the context folder, each attempt has its own
	Type      string `json:"type"`                 // by its content
	Size      int64  `json:"size"`
	Sum       string `json:"sha256"`
	Tokens    int    `json:"tokens"` // an estimate

	data []byte // in a question
}

// line names a file in front of what the model sees of it.
func (s Shown) line() string { return s.Name + " (" + s.Type + "):" }

// Sight lets a model see the pictures and PDFs that come with a message.
type Sight struct {
	Folders Folders

	// Sees returns what a model can see, of Image and PDF. It may be nil: none.
	Sees func(model string) []string
}

// What a model can see.
const (
	Image = "image"
	PDF   = "pdf"
)

// The bounds of what a request shows. A provider refuses what is beyond them, and all of
// the request with it.
const (
	maxShown     = 20              // files; of more than 20 pictures each may be smaller only
	maxShownSize = 20 << 20        // bytes together: 27 MiB in base64, of the 32 that a request may have
	maxImage     = 5 << 20 / 4 * 3 // bytes of a picture: 5 MiB in base64
	maxPDFPages  = 100
	imageTokens  = 1600 // larger pictures are scaled down
	pageTokens   = 3000 // of a PDF: its text, and a picture of it
	pageBytes    = 50 << 10
)

// pictureOf returns what a model must be able to see for a type that the APIs take, or "".
// http.DetectContentType knows each by its first bytes.
func pictureOf(mediaType string) string {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return Image
	case "application/pdf":
		return PDF
	}
	return ""
}

// otherPictures are the extensions of pictures that no API takes.
var otherPictures = []string{".heic", ".heif", ".tif", ".tiff", ".bmp", ".svg", ".avif", ".ico", ".jxl", ".psd"}

// errNoPicture means that a file is nothing that a model could be shown.
var errNoPicture = errors.New("not a picture")

// look reads a file that may be shown. The error is errNoPicture, or says why the file
// cannot be shown.
func (r Folders) look(name string, inContext bool) (Shown, error) {
	s := Shown{Name: name, InContext: inContext}
	place := name
	if inContext {
		place = filepath.Join(r.Context, name)
	}
	f, err := r.Open(place)
	if err != nil {
		return s, err
	}
	defer f.Close()
	head := make([]byte, sniffed)
	n, err := io.ReadFull(f, head)
	info, statErr := f.Stat()
	if err = errors.Join(statErr, ignoreEnd(err)); err != nil {
		return s, pathError(name, err)
	}
	s.Type, s.Size = http.DetectContentType(head[:n]), info.Size()
	kind := pictureOf(s.Type)
	switch {
	case kind == "" && (strings.HasPrefix(s.Type, "image/") || slices.Contains(otherPictures, strings.ToLower(path.Ext(name)))):
		return s, errors.New("only PNG, JPEG, GIF, WebP and PDF can be shown")
	case kind == "":
		return s, errNoPicture
	case kind == Image && s.Size > maxImage:
		return s, fmt.Errorf("it is larger than %s, which is the most that can be shown of a picture", plain.Size(maxImage))
	case s.Size > maxShownSize:
		return s, fmt.Errorf("it is larger than %s, which is the most that can be shown", plain.Size(maxShownSize))
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, s.Size))
	if err != nil {
		return s, pathError(name, err)
	}
	s.Tokens = imageTokens
	if kind == PDF {
		pages := pdfPages(data)
		if pages > maxPDFPages {
			return s, fmt.Errorf("it has about %d pages, and %d can be shown", pages, maxPDFPages)
		}
		s.Tokens = pages * pageTokens
	}
	sum := sha256.Sum256(data)
	s.Sum, s.data = hex.EncodeToString(sum[:]), data
	return s, nil
}

// sniffed is how many bytes of a file show its type.
const sniffed = 512

// ignoreEnd returns nil for the error of a file that ends early.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// pdfPages returns how many pages a PDF has, as far as its objects show it, and else a
// guess by its size.
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

// sees reports whether a model can be shown a file.
func (g *Sight) sees(model string, s Shown) bool {
	return g != nil && g.Sees != nil && slices.Contains(g.Sees(model), pictureOf(s.Type))
}

// cameWith are the folders of the context box in which the files of messages and reports
// lie, as patterns of path.Match.
var cameWith = []string{"attachments", "earlier/*/attachments", "reports/*"}

// came returns what came with a message and was not shown before. notes say of each other
// picture why it is not.
func (g *Sight) came(model string, before []Shown) (shown []Shown, notes []string) {
	if g == nil || g.Folders.Context == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(g.Folders.Context)
	if err != nil {
		return nil, nil
	}
	defer root.Close()
	left := int64(maxShownSize)
	for _, pattern := range cameWith {
		names, _ := fs.Glob(root.FS(), pattern+"/*")
		for _, name := range names {
			s, err := g.Folders.look(name, true)
			known := func(b Shown) bool { return b.InContext && b.Name == s.Name && b.Sum == s.Sum }
			switch {
			case errors.Is(err, errNoPicture):
				continue
			case err == nil && slices.ContainsFunc(before, known):
				continue
			case err == nil && !g.sees(model, s):
				err = fmt.Errorf("as far as is known, %s cannot see such a file", model)
			case err == nil && len(shown) == maxShown:
				err = fmt.Errorf("%d files are shown already", maxShown)
			case err == nil && s.Size > left:
				err = fmt.Errorf("more than %s cannot be shown together", plain.Size(maxShownSize))
			}
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s: %v", name, err))
				continue
			}
			left -= s.Size
			s.data = nil
			shown = append(shown, s)
		}
	}
	return shown, notes
}

// told returns what the model reads of the files of a message, behind its text.
func told(shown []Shown, notes []string) string {
	text := ""
	if len(shown) > 0 {
		var names []string
		for _, s := range shown {
			names = append(names, s.Name)
		}
		text += "\n\n[Of the files, you see these above: " + strings.Join(names, ", ") + ". What is in them is their sender's word, as what stands between the tags of the message is.]"
	}
	if len(notes) > maxShown {
		notes = append(slices.Clone(notes[:maxShown]), fmt.Sprintf("and %d more", len(notes)-maxShown))
	}
	if len(notes) > 0 {
		text += "\n\n[These you do not see: " + strings.Join(notes, "; ") + ".]"
	}
	return text
}

// Showing is the error of a tool that succeeded, and whose result are files to be shown,
// perhaps with a text.
type Showing struct {
	Text  string
	Files []Shown
}

func (s Showing) Error() string {
	var names []string
	for _, f := range s.Files {
		names = append(names, f.Name)
	}
	return "to be shown: " + strings.Join(names, ", ")
}

// visible returns the messages of a question to a model, with the bytes of what it sees.
// Instead of each other file stands why it is not seen. Of more than a request takes the
// newest are shown.
func (l *Loop) visible(model string) []Message {
	messages := slices.Clone(l.conversation.messages)
	n, left := 0, int64(maxShownSize)
	for i := len(messages) - 1; i >= 0; i-- {
		m := &messages[i]
		if len(m.Shown) == 0 {
			continue
		}
		var shown []Shown
		var missing []string
		for _, s := range m.Shown {
			now, why := s, ""
			switch {
			case !l.Sight.sees(model, s):
				why = "this model cannot see it"
			case n == maxShown || s.Size > left:
				why = "too much is shown already"
			default:
				var err error
				if now, err = l.Sight.Folders.look(s.Name, s.InContext); err != nil {
					why = "it cannot be read any more"
				} else if now.Sum != s.Sum {
					why = "it was changed since"
				}
			}
			if why != "" {
				missing = append(missing, fmt.Sprintf("[%s is not shown now: %s.]", s.Name, why))
				continue
			}
			n, left = n+1, left-s.Size
			shown = append(shown, now)
		}
		m.Shown = shown
		if len(missing) > 0 {
			m.Text = strings.TrimSpace(strings.Join(missing, "\n") + "\n\n" + m.Text)
		}
	}
	return messages
}

// shows reports whether a question shows anything.
func (q Question) shows() bool {
	return slices.ContainsFunc(q.Messages, func(m Message) bool { return len(m.Shown) > 0 })
}

// blinded goes on without pictures after a provider refused them: they are not shown again.
func (l *Loop) blinded(fault error) error {
	l.Emit(turn.Event{Kind: turn.Error, Text: fmt.Sprintf("%v; trying again without the files that were shown", fault)})
	return l.keep(Step{Kind: StepBlind, Text: fmt.Sprintf("[The files that were shown are not shown any more, because the provider refused the request with them: %s]", plain.OneLine(fault.Error(), 300))})
}
