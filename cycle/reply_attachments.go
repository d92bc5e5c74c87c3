package cycle

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"agentstateloop/cycle/files"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// The limits of a reply, in bytes and files.
const (
	maxAttached = 18 << 20 // in base64 a mail of 25 MiB, the limit of large providers

	// Attachments of at most maxTwice together are in the rendered mail, and stay in the output
	// folder. Of more than that, each file above minApart is kept apart, and its place in the
	// output folder is empty while the mail waits.
	maxTwice = 1 << 20
	minApart = 16 << 10
	maxApart = 256 // files that a row names
)

// attachments returns the named files of the output folder that go with a mail. Large ones are
// copied into the outbox, and become m.outgoing. unsent names the files that cannot go, each
// with the reason. A full disk is an error.
func (rp *replier) attachments(m *turnMessage, names []string) (list []message.Attachment, unsent []string, err error) {
	names = ofAgent(names)
	sent := files.SentNames(names)
	var sizes int64
	for _, name := range names {
		if f, size, err := rp.openOutput(m.dir(), name, maxAttached); err == nil {
			f.Close()
			sizes += size
		}
	}
	left := int64(maxAttached)
	for i, name := range names {
		a, size, err := rp.attach(m, name, sent[i], left, sizes > maxTwice)
		if diskFull(err) {
			return nil, nil, err
		}
		if err != nil {
			unsent = append(unsent, fmt.Sprintf("file not attached: %s: %v", name, err))
			continue
		}
		left -= size
		list = append(list, a)
	}
	return list, unsent, nil
}

// attach returns one file of the output folder as an attachment, if it has at most left bytes.
// It is sent under the name as.
func (rp *replier) attach(m *turnMessage, name, as string, left int64, apart bool) (a message.Attachment, size int64, err error) {
	f, size, err := rp.openOutput(m.dir(), name, left)
	if err != nil {
		return a, 0, err
	}
	defer f.Close()
	a.Name = as
	if !apart || size <= minApart || len(m.outgoing) == maxApart {
		a.Data, err = io.ReadAll(io.LimitReader(f, left+1))
		if err == nil && int64(len(a.Data)) > left {
			err = errTooMuchAttached
		}
		a.Type = message.MediaType(name, a.Data)
		return a, int64(len(a.Data)), err
	}
	ref, err := files.Outgoing{Store: rp.store}.KeepOne(files.Opened{Name: a.Name, Body: f}, left)
	if err != nil {
		return a, 0, err
	}
	ref.Place = path.Join(m.dir(), "output", name)
	m.outgoing = append(m.outgoing, ref)
	return rp.apart(ref, len(m.outgoing)), ref.Size, nil
}

// apart returns the attachment whose content is file number n, from 1, of a row.
func (rp *replier) apart(ref state.FileRef, n int) message.Attachment {
	return message.Attachment{
		Name: ref.FileName, Type: ref.Type, Apart: n,
		Foreign: strings.HasPrefix(ref.Type, "text/") && !rp.isUTF8(ref.File),
	}
}

// isUTF8 reports whether a file of ours is a text in UTF-8.
func (rp *replier) isUTF8(name string) bool {
	f, err := rp.store.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		switch c, size, err := r.ReadRune(); {
		case err != nil:
			return err == io.EOF
		case c == utf8.RuneError && size == 1:
			return false
		}
	}
}

var errTooMuchAttached = fmt.Errorf("the attachments of a reply are limited to %d MiB", maxAttached>>20)

// openOutput opens a file of the output folder, if it has at most n bytes.
func (rp *replier) openOutput(dir, name string, n int64) (f *os.File, size int64, err error) {
	if f, err = turn.OpenOutput(rp.store.Path(dir), name); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > n {
		err = errTooMuchAttached
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// attachedAgain returns the attachments of a rendered reply again, as far as their files still
// exist. The files that the row names need not be in the output folder.
func (rp *replier) attachedAgain(e state.Effect) (list []message.Attachment, err error) {
	m := turnMessage{head: state.Head{TurnID: e.TurnID, Epoch: e.Epoch}}
	names, _, err := turn.ListOutput(rp.store.Path(m.dir()))
	if err != nil {
		return nil, fmt.Errorf("list the output box: %w", err)
	}
	apart := map[string]int{} // numbers, from 1, by name in the output folder
	for i, ref := range e.Files {
		name := strings.TrimPrefix(ref.Place, path.Join(m.dir(), "output")+"/")
		if apart[name] = i + 1; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = ofAgent(names)
	for i, as := range files.SentNames(names) {
		if n := apart[names[i]]; n > 0 {
			list = append(list, rp.apart(e.Files[n-1], n))
		} else if a, _, err := rp.attach(&m, names[i], as, maxAttached, false); err == nil {
			list = append(list, a)
		}
	}
	return list, nil
}
