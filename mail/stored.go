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
	"syscall"
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

// StoredReader reads mails from files: a file with one mail, an mbox, a Maildir, or the files named
// .eml or .mbox in a folder, and of both the subfolders. It holds one mail at a time.
type StoredReader struct {
	Stdin   io.Reader        // for the name "-"; nil: neither this name nor a pipe is read
	MaxSize int64            // bytes of a mail that are held
	Now     func() time.Time // the arrival of a mail without any date

	// Take gets each mail, which is valid until Take returns. An error ends the reading. Skip gets
	// each file that cannot be read, with the reason.
	Take func(Stored) error
	Skip func(name string, why error) error
}

// Read reads all mails of a file or a folder. Its errors are those of Take and Skip.
func (r *StoredReader) Read(name string) error {
	if name == "-" && r.Stdin != nil {
		return r.stream("standard input", "", bufio.NewReader(r.Stdin))
	}
	if name == "-" {
		return r.Skip("standard input", errPipe)
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return r.Skip(name, fileError(err))
	case info.IsDir():
		return r.folder(name)
	case info.Mode().Type() == fs.ModeNamedPipe && r.Stdin != nil:
		return r.pipe(name)
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

// pipe reads a pipe, and waits for its writer.
func (r *StoredReader) pipe(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return r.Skip(name, fileError(err))
	}
	defer f.Close()
	return r.stream(name, "", bufio.NewReader(f))
}

// file reads a file with one mail, or an mbox.
func (r *StoredReader) file(name string) error {
	f, err := openFile(name)
	if err != nil {
		return r.Skip(name, fileError(err))
	}
	defer f.Close()
	return r.stream(name, name, bufio.NewReaderSize(f, 64<<10))
}

// openFile opens a regular file. Of anything else it returns an error, and does not wait for the
// writer of a pipe.
func openFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Mode().Type() == fs.ModeNamedPipe:
		err = errPipe
	case info.IsDir():
		err = errLinkedFolder
	case !info.Mode().IsRegular():
		err = errors.New("it is not a file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// errPipe refuses a pipe: its mails cannot be read again, and it may have no writer.
var errPipe = errors.New("it is a pipe: save its mails in a file, and name that file")

// errLinkedFolder refuses a link to a folder: it may lead back to the folder that it is in.
var errLinkedFolder = errors.New("it is a link to a folder: name that folder itself")

// errRead ends the reading after one mail.
var errRead = errors.New("the mail was read")

// Again reads a mail again that Take has got from a file. Its number and its time are as they were.
func (r *StoredReader) Again(m Stored) (Stored, error) {
	f, err := openFile(m.File)
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

// folder reads the mails of a folder and its subfolders.
func (r *StoredReader) folder(name string) error {
	found, err := r.below(name, 0)
	if err == nil && !found {
		return r.Skip(name, errors.New("the folder is not a Maildir, and has no files named .eml or .mbox"))
	}
	return err
}

// maxDepth limits the depth of subfolders.
const maxDepth = 20

// below reads a Maildir, or the files named .eml or .mbox of another folder, and the subfolders. found
// is set if there is a Maildir or such a file, or Skip got a reason.
func (r *StoredReader) below(name string, depth int) (found bool, err error) {
	entries, err := os.ReadDir(name)
	if err == nil && depth > maxDepth {
		err = fmt.Errorf("it is more than %d folders deep: name it itself", maxDepth)
	}
	if err != nil {
		return true, r.Skip(name, fileError(err))
	}
	for _, e := range entries {
		path := filepath.Join(name, e.Name())
		read := true
		switch {
		case (e.Name() == "cur" || e.Name() == "new") && isFolder(path):
			err = r.maildir(path)
		case e.IsDir() && e.Name() == "tmp" && isMaildir(name): // unfinished mails
		case e.IsDir():
			read, err = r.below(path, depth+1)
		case hasSuffix(e.Name(), ".eml") || hasSuffix(e.Name(), ".mbox"):
			err = r.file(path)
		case e.Type() == fs.ModeSymlink && isFolder(path):
			err = r.Skip(path, errLinkedFolder)
		default:
			read = false
		}
		if err != nil {
			return true, err
		}
		found = found || read
	}
	return found, nil
}

func hasSuffix(name, suffix string) bool { return strings.HasSuffix(strings.ToLower(name), suffix) }

// isFolder reports whether a name is that of a folder, or of a link to one.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// isMaildir reports whether a folder has the folders of a Maildir.
func isMaildir(name string) bool {
	return isFolder(filepath.Join(name, "cur")) && isFolder(filepath.Join(name, "new"))
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
		f, err := openFile(path)
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
		stamp, starts := time.Time{}, false
		if begun && blank && bytes.HasPrefix(part, []byte(fromLine)) {
			stamp, starts = fromLineTime(part)
		}
		if starts || n == 0 {
			if n > 0 {
				if err := r.takeNumbered(Stored{Name: name, File: file, Offset: begins}, n, &m, at); err != nil {
					return err
				}
			}
			n, at, begins = n+1, stamp, offset
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

// fromLineTime returns the time in a line that begins with "From ", or zero if its zone is unknown. ok
// reports whether the line has the form of a line before a mail: its last words are a time and a year,
// as asctime writes them, and perhaps a time zone.
func fromLineTime(line []byte) (at time.Time, ok bool) {
	words := strings.Fields(string(line[:min(len(line), 1000)]))
	for i := 1; i+4 < len(words); i++ {
		for _, layout := range []string{"Mon Jan 2 15:04:05 2006", "Mon Jan 2 15:04:05 -0700 2006", "Mon Jan 2 15:04:05 MST 2006", "Mon Jan 2 15:04:05 2006 -0700", "Mon Jan 2 15:04 2006"} {
			length := len(strings.Fields(layout))
			if i+length > len(words) {
				continue
			}
			if at, err := time.Parse(layout, strings.Join(words[i:i+length], " ")); err == nil {
				return inKnownZone(at), true
			}
		}
	}
	return time.Time{}, false
}

// inKnownZone returns a time that was parsed, or zero if its zone is an abbreviation that this machine
// does not know: package time then takes the hour as that of UTC.
func inKnownZone(t time.Time) time.Time {
	name, offset := t.Zone()
	if offset != 0 || t.Location() == time.UTC || t.Location() == time.Local || name == "" || name == "GMT" || name == "UT" {
		return t
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
// Date, or zero. An older Received field tells when another server got the mail.
func datesOf(raw []byte) (arrived, sent time.Time) {
	fields := message.Fields(raw)
	first := func(name string) string {
		if values := message.Values(fields, name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
	received := first("received")
	arrived, _ = mail.ParseDate(strings.TrimSpace(received[strings.LastIndexByte(received, ';')+1:]))
	sent, _ = mail.ParseDate(strings.TrimSpace(first("date")))
	return inKnownZone(arrived), sent
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
