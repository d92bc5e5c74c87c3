package mail

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/mail"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentstateloop/mail/message"
)

// Stored is a mail in a file of another program.
type Stored struct {
	Name string    // of the file; in an mbox with the number of the mail
	Raw  []byte    // with the line ends of the network, CRLF; of a longer mail the first bytes
	Size int64     // of the whole mail with these line ends, in bytes
	At   time.Time // of its arrival, as far as the file knows it

	File   string // "" for standard input
	Offset int64  // of the mail in an mbox
}

// StoredReader reads mails from files: a file with one mail, an mbox, a Maildir with its subfolders,
// or a folder with files named .eml or .mbox. It holds one mail at a time.
type StoredReader struct {
	Stdin   io.Reader        // for the name "-"
	MaxSize int64            // bytes of a mail that are held
	Now     func() time.Time // the arrival of a mail without any date

	// Take gets each mail, which is valid until Take returns. An error ends the reading. Skip gets
	// each file that cannot be read, with the reason.
	Take func(Stored) error
	Skip func(name string, why error) error
}

// Read reads all mails of a file or a folder. Its errors are those of Take and Skip.
func (r *StoredReader) Read(name string) error {
	if name == "-" {
		return r.stream("standard input", "", bufio.NewReader(r.Stdin))
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return r.Skip(name, fileError(err))
	case info.IsDir():
		return r.folder(name)
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeNamedPipe:
		return r.Skip(name, errors.New("it is not a file"))
	}
	return r.file(name)
}

// fileError returns the error of a file without its path.
func fileError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// file reads a file with one mail, or an mbox.
func (r *StoredReader) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return r.Skip(name, fileError(err))
	}
	defer f.Close()
	return r.stream(name, name, bufio.NewReaderSize(f, 64<<10))
}

// errRead ends the reading after one mail.
var errRead = errors.New("the mail was read")

// Again reads a mail again that Take has got from a file. Its number and its time are as they were.
func (r *StoredReader) Again(m Stored) (Stored, error) {
	f, err := os.Open(m.File)
	if err != nil {
		return m, fileError(err)
	}
	defer f.Close()
	if _, err := f.Seek(m.Offset, io.SeekStart); err != nil {
		return m, fileError(err)
	}
	again := *r
	again.Take = func(found Stored) error {
		m.Raw, m.Size = found.Raw, found.Size
		return errRead
	}
	again.Skip = func(_ string, why error) error { return why }
	if err := again.stream(m.Name, m.File, bufio.NewReaderSize(f, 64<<10)); !errors.Is(err, errRead) {
		return m, err
	}
	return m, nil
}

// folder reads a Maildir with its subfolders, or the mails in the files of another folder.
func (r *StoredReader) folder(name string) error {
	entries, err := os.ReadDir(name)
	if err != nil {
		return r.Skip(name, fileError(err))
	}
	found := false
	for _, e := range entries {
		path := filepath.Join(name, e.Name())
		switch {
		case e.IsDir() && (e.Name() == "cur" || e.Name() == "new"):
			found = true
			if err := r.maildir(path); err != nil {
				return err
			}
		case e.IsDir() && isMaildir(path):
			found = true
			if err := r.folder(path); err != nil {
				return err
			}
		case !e.IsDir() && (hasSuffix(e.Name(), ".eml") || hasSuffix(e.Name(), ".mbox")):
			found = true
			if err := r.Read(path); err != nil {
				return err
			}
		}
	}
	if !found {
		return r.Skip(name, errors.New("the folder is not a Maildir, and has no files named .eml or .mbox"))
	}
	return nil
}

func hasSuffix(name, suffix string) bool { return strings.HasSuffix(strings.ToLower(name), suffix) }

// isMaildir reports whether a folder has the folders of a Maildir.
func isMaildir(name string) bool {
	for _, part := range []string{"cur", "new"} {
		if info, err := os.Stat(filepath.Join(name, part)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// maildir reads cur or new of a Maildir, by the names of the mails, which begin with the time. A mail
// that another program has moved meanwhile is left out.
func (r *StoredReader) maildir(name string) error {
	entries, err := os.ReadDir(name)
	if err != nil {
		return r.Skip(name, fileError(err))
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(name, e.Name())
		f, err := os.Open(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			err = r.Skip(path, fileError(err))
		default:
			err = r.one(path, path, bufio.NewReader(f), maildirTime(e.Name()))
			f.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maildirTime returns the time at the beginning of the name of a mail, or zero.
func maildirTime(name string) time.Time {
	digits, _, _ := strings.Cut(name, ".")
	seconds, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || seconds <= 0 || len(digits) > 11 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// stream reads one mail or an mbox.
func (r *StoredReader) stream(name, file string, br *bufio.Reader) error {
	offset := int64(0)
	if bom, _ := br.Peek(3); string(bom) == "\xef\xbb\xbf" {
		n, _ := br.Discard(3)
		offset = int64(n)
	}
	switch begin, err := br.Peek(len(fromLine)); {
	case len(begin) == 0 && err == io.EOF:
		return r.Skip(name, errors.New("the file is empty"))
	case string(begin) == fromLine:
		return r.mbox(name, file, offset, br)
	}
	return r.one(name, file, br, time.Time{})
}

// one reads a file with one mail. at is its arrival if the header does not have it, or zero.
func (r *StoredReader) one(name, file string, br *bufio.Reader, at time.Time) error {
	m := storedMail{max: r.MaxSize}
	buffer := make([]byte, 32<<10)
	for {
		n, err := br.Read(buffer)
		m.add(buffer[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return r.Skip(name, fileError(err))
		}
	}
	if why := notAMail(m.raw); why != "" {
		return r.Skip(name, errors.New(why))
	}
	return r.take(Stored{Name: name, File: file}, &m, at)
}

// notAMail returns the reason why a file is not a mail, or "".
func notAMail(raw []byte) string {
	for _, f := range message.Fields(raw) {
		switch f.Name {
		case "from", "to", "subject", "date", "message-id", "received", "return-path", "delivered-to", "mime-version":
			return ""
		}
	}
	if bytes.HasPrefix(raw, []byte("\xd0\xcf\x11\xe0")) {
		return "it is a file of Outlook (.msg): save the mail as .eml, or forward it as an attachment and save that"
	}
	return "it is not a mail: it has no header. Save the mail itself, as .eml or \"original\""
}

// fromLine begins the line before each mail of an mbox.
const fromLine = "From "

// mbox reads an mbox, in which the line "From ADDRESS DATE" precedes each mail, and an empty line
// follows it. A line of a mail that begins with "From ", after any number of ">", has one ">" more
// (mboxrd, and mboxo for lines without a ">"). The mbox begins at an offset of its file.
func (r *StoredReader) mbox(name, file string, offset int64, br *bufio.Reader) error {
	m, begins := storedMail{max: r.MaxSize}, offset
	n, at := 0, time.Time{}
	begun, blank := true, true // at the beginning of a line, after an empty line
	for {
		part, err := br.ReadSlice('\n')
		length := int64(len(part))
		if err != nil && err != bufio.ErrBufferFull && err != io.EOF {
			return r.Skip(name, fileError(err))
		}
		if begun && blank && bytes.HasPrefix(part, []byte(fromLine)) && (n == 0 || isFromLine(part)) {
			if n > 0 {
				if err := r.takeNumbered(Stored{Name: name, File: file, Offset: begins}, n, &m, at); err != nil {
					return err
				}
			}
			n, at, begins = n+1, fromLineTime(part), offset
			m.reset()
		} else {
			if quoted := bytes.TrimLeft(part, ">"); begun && len(quoted) < len(part) && bytes.HasPrefix(quoted, []byte(fromLine)) {
				part = part[1:]
			}
			m.add(part)
		}
		if len(part) > 0 {
			blank = begun && len(bytes.TrimRight(part, "\r\n")) == 0
			begun = part[len(part)-1] == '\n'
		}
		offset += length
		if err == io.EOF {
			return r.takeNumbered(Stored{Name: name, File: file, Offset: begins}, n, &m, at)
		}
	}
}

// takeNumbered takes mail n of an mbox, without the empty line that follows it.
func (r *StoredReader) takeNumbered(found Stored, n int, m *storedMail, at time.Time) error {
	if whole, ok := bytes.CutSuffix(m.raw, []byte("\r\n\r\n")); ok && int64(len(m.raw)) == m.size {
		m.raw = m.raw[:len(whole)+2]
		m.size = int64(len(m.raw))
	}
	found.Name = fmt.Sprintf("%s, mail %d", found.Name, n)
	return r.take(found, m, at)
}

// isFromLine reports whether a line that begins with "From " has the form of a line before a mail:
// its last words are a time and a year, as asctime writes them, and perhaps a time zone.
func isFromLine(line []byte) bool { return !fromLineTime(line).IsZero() }

// fromLineTime returns the time in the line before a mail, or zero.
func fromLineTime(line []byte) time.Time {
	words := strings.Fields(string(line[:min(len(line), 1000)]))
	for i := 1; i+4 < len(words); i++ {
		for _, layout := range []string{"Mon Jan 2 15:04:05 2006", "Mon Jan 2 15:04:05 -0700 2006", "Mon Jan 2 15:04:05 MST 2006", "Mon Jan 2 15:04:05 2006 -0700", "Mon Jan 2 15:04 2006"} {
			length := len(strings.Fields(layout))
			if i+length > len(words) {
				continue
			}
			if at, err := time.Parse(layout, strings.Join(words[i:i+length], " ")); err == nil {
				return at
			}
		}
	}
	return time.Time{}
}

// take hands a mail that was found to Take. at is its arrival if the header does not have it, or zero.
func (r *StoredReader) take(found Stored, m *storedMail, at time.Time) error {
	found.Raw, found.Size = m.raw, m.size
	arrived, sent := datesOf(m.raw)
	for _, t := range []time.Time{arrived, at, sent} {
		if !t.IsZero() {
			found.At = t
			return r.Take(found)
		}
	}
	found.At = r.Now()
	return r.Take(found)
}

// datesOf returns the times at which a mail arrived and was sent, by its topmost Received field and by
// Date, or zero.
func datesOf(raw []byte) (arrived, sent time.Time) {
	for _, f := range message.Fields(raw) {
		switch {
		case f.Name == "received" && arrived.IsZero():
			arrived, _ = mail.ParseDate(strings.TrimSpace(f.Value[strings.LastIndexByte(f.Value, ';')+1:]))
		case f.Name == "date" && sent.IsZero():
			sent, _ = mail.ParseDate(strings.TrimSpace(f.Value))
		}
	}
	return arrived, sent
}

// storedMail collects the bytes of a mail, with CRLF at the end of each line.
type storedMail struct {
	raw  []byte
	size int64
	max  int64
	last byte // the last byte that was added
}

func (m *storedMail) reset() { m.raw, m.size, m.last = m.raw[:0], 0, 0 }

// add adds bytes of a file.
func (m *storedMail) add(part []byte) {
	for len(part) > 0 {
		i := bytes.IndexByte(part, '\n')
		if i < 0 {
			m.put(part)
			return
		}
		m.put(part[:i])
		if m.last != '\r' {
			m.put([]byte{'\r'})
		}
		m.put(part[i : i+1])
		part = part[i+1:]
	}
}

func (m *storedMail) put(part []byte) {
	if len(part) == 0 {
		return
	}
	m.size += int64(len(part))
	m.last = part[len(part)-1]
	if room := m.max - int64(len(m.raw)); room > 0 {
		m.raw = append(m.raw, part[:min(int64(len(part)), room)]...)
	}
}
