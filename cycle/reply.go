package cycle

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"agentstateloop/cycle/files"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// replier makes the effects that hand a turn's deliverable back.
type replier struct {
	core
	mail     *Mail // nil: no mail is configured
	renderer *renderer
}

// reply returns the effect that hands a turn's deliverable back, with its bytes kept: a mail to
// the operator, or a report to the peer that asked. It returns nil for `tell`, which reads the
// deliverable from the output folder, and for turns that the agent planned in another agent's
// turn: only a question has an answer there.
func (rp *replier) reply(m turnMessage, how state.Outcome, back deliverableBody, list []message.Attachment) (*state.Effect, error) {
	e := state.Effect{
		ID: "reply." + m.head.TurnID, Kind: state.Reply, To: m.msg.From,
		TurnID: m.head.TurnID, Epoch: m.head.Epoch, Origin: originOf(back, list, m.outgoing), Trace: m.msg.Trace,
	}
	switch {
	case m.repliesByMail(rp.mail):
		e.Channel, e.Thread, e.To, e.Files = state.ByMail, m.thread, rp.renderer.policy.Operator, m.outgoing
	case m.msg.Source == state.Mail && rp.mail != nil:
		e.Channel, e.Thread, e.Files = state.ByMail, m.thread, m.outgoing
	case m.msg.Source == state.Mesh:
		e.Channel, e.Files = state.ByMesh, m.outgoing
		e.Correlation, e.Hops = m.msg.Correlation, replyHops(m.sent.Hops, rp.handle)
		e.Outcome, e.AfterExecution = how, mesh.Continue
	default:
		return nil, nil
	}
	data, err := rp.render(e, back, list)
	if err != nil {
		return nil, err
	}
	named := e
	named.ID = fmt.Sprintf("%s.%d", e.ID, m.head.Epoch) // an older runner must not overwrite these bytes
	e.File = effectFile(named)
	e.Sum, err = rp.store.KeepSummed(e.File, bytes.NewReader(data))
	return &e, err
}

// repliesByMail reports whether the operator gets the answer by mail although the message was
// not a mail: the agent woke itself in their conversation, a clock prompt was due, a program
// spoke, or work that a turn of `tell` has started reported after its end, when the terminal
// is not read any more.
func (m turnMessage) repliesByMail(mail *Mail) bool {
	switch m.msg.Source {
	case state.Self, state.Clock:
		return mail != nil && m.msg.Operator
	case state.CLI:
		return mail != nil && m.msg.IsFollowUp()
	}
	return mail != nil && m.msg.Source == state.EventSource
}

// render returns the bytes of a reply. A report repeats the correlation id of its
// cause, or else the cause's own id, and adds us to its hops (docs/protocol.md, "The
// mesh").
func (rp *replier) render(e state.Effect, back deliverableBody, list []message.Attachment) ([]byte, error) {
	if e.Channel == state.ByMail {
		s, err := rp.store.Read()
		if err != nil {
			return nil, err
		}
		return rp.renderer.renderMail(s.Place, e, mailText{text: back.whole(), markdown: !back.failed()}, list, rp.now())
	}
	m := meshMessage(rp.handle, e, truncateJSON(back.Text, roomFor(files.ForMesh(e.Files))-back.Fields.Size()))
	m.Fields = back.Fields
	return json.Marshal(m)
}

// rerender renders a reply again from the deliverable in its output folder. It fails if the
// deliverable or a file of the reply has changed.
func (rp *replier) rerender(e state.Effect) ([]byte, error) {
	dir := store.AttemptDir(e.TurnID, e.Epoch)
	box, fields := path.Join(dir, "output"), fieldsFile
	if _, err := os.Lstat(rp.store.Path(path.Join(box, fields))); errors.Is(err, fs.ErrNotExist) {
		fields = ""
	}
	back, err := readDeliverableBody(rp.store, box, deliverableFile, fields)
	if err != nil {
		return nil, err
	}
	var list []message.Attachment
	if e.Channel == state.ByMail {
		if list, err = rp.reattach(e); err != nil {
			return nil, err
		}
	}
	if originOf(back, list, e.Files) != e.Origin {
		return nil, errors.New("its deliverable, or a file that went with it, has changed")
	}
	return rp.render(e, back, list)
}

// originOf returns a sum of the sources of a reply. The order of the files does not count. refs
// names the files that are kept apart.
func originOf(back deliverableBody, list []message.Attachment, refs []state.FileRef) string {
	parts := []string{store.Sum([]byte(back.Text))}
	if len(back.Fields) > 0 {
		fields, _ := back.Fields.MarshalJSON() // they were made from JSON
		parts = append(parts, store.Sum(fields)+" fields")
	}
	for _, f := range list {
		sum := store.Sum(f.Data)
		if f.Apart > 0 {
			sum = refs[f.Apart-1].Sum
		}
		parts = append(parts, fmt.Sprintf("%s %q", sum, f.Name))
	}
	slices.Sort(parts[1:])
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintln(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// keepForReport keeps the named files of an attempt's output folder for its report. unsent
// names the files that cannot go, each with the reason. A full disk is an error.
func (rp *replier) keepForReport(m *turnMessage, names []string) (unsent []string, err error) {
	keeper, left := files.Outgoing{Store: rp.store}, int64(mesh.MaxFilesBytes)
	names = ofAgent(names)
	sent := files.SentNames(names)
	for i, name := range names {
		ref, err := rp.keepOutput(m.dir(), name, files.MeshName(sent[i]), len(m.outgoing), left)
		if err != nil {
			keeper.Drop([]state.FileRef{ref})
		}
		if diskFull(err) {
			return nil, err
		}
		if err != nil {
			unsent = append(unsent, fmt.Sprintf("file not sent: %s: %v", name, err))
			continue
		}
		left -= ref.Size
		m.outgoing = append(m.outgoing, ref)
	}
	return unsent, nil
}

// keepOutput keeps one file of the output folder, if the report has room for it.
func (rp *replier) keepOutput(dir, name, as string, before int, left int64) (ref state.FileRef, err error) {
	if before == mesh.MaxFiles {
		return ref, fmt.Errorf("a report can have %d files", mesh.MaxFiles)
	}
	if !mesh.ValidFileName(as) {
		return ref, errors.New("its name is not allowed in messages between agents")
	}
	f, err := turn.OpenOutput(rp.store.Path(dir), name)
	if err != nil {
		return ref, err
	}
	defer f.Close()
	if err := files.FitsMessage(f, name); err != nil {
		return ref, err
	}
	if info, err := f.Stat(); err != nil || info.Size() > left {
		return ref, fmt.Errorf("the files of a report are limited to %d MiB", mesh.MaxFilesBytes>>20)
	}
	ref, err = files.Outgoing{Store: rp.store}.KeepOne(files.OpenFile{Name: as, Body: f}, mesh.MaxFile)
	if err == nil && ref.Size > left {
		err = fmt.Errorf("the files of a report are limited to %d MiB", mesh.MaxFilesBytes>>20)
	}
	if ref.Size > maxTwice {
		ref.Place = path.Join(dir, "output", name)
	}
	return ref, err
}

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
	ref, err := files.Outgoing{Store: rp.store}.KeepOne(files.OpenFile{Name: a.Name, Body: f}, left)
	if err != nil {
		return a, 0, err
	}
	ref.Place = path.Join(m.dir(), "output", name)
	m.outgoing = append(m.outgoing, ref)
	return rp.separateAttachment(ref, len(m.outgoing)), ref.Size, nil
}

// separateAttachment returns the attachment whose content is file number n, from 1, of a row.
func (rp *replier) separateAttachment(ref state.FileRef, n int) message.Attachment {
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

// reattach returns the attachments of a rendered reply again, as far as their files still
// exist. The files that the row names need not be in the output folder.
func (rp *replier) reattach(e state.Effect) (list []message.Attachment, err error) {
	m := turnMessage{head: state.Head{TurnID: e.TurnID, Epoch: e.Epoch}}
	names, _, err := turn.ListOutput(rp.store.Path(m.dir()))
	if err != nil {
		return nil, fmt.Errorf("list output folder: %w", err)
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
			list = append(list, rp.separateAttachment(e.Files[n-1], n))
		} else if a, _, err := rp.attach(&m, names[i], as, maxAttached, false); err == nil {
			list = append(list, a)
		}
	}
	return list, nil
}
