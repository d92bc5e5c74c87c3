package cycle

import (
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
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// replier makes what hands a turn's deliverable back.
type replier struct {
	handle   string
	mail     *Mail // nil: no mail is configured
	now      func() time.Time
	store    *store.Store
	renderer renderer
}

// reply returns the effect that hands a turn's deliverable back, its bytes kept:
// a mail to the operator, or a report to the peer that asked. It returns nil for
// `tell`, which reads the deliverable from the box, and for what the agent planned in
// another agent's turn: only a question has an answer there.
func (rp replier) reply(m turnMessage, how state.Outcome, back handedBack, files []message.Attachment) (*state.Effect, error) {
	e := state.Effect{
		ID: "reply." + m.head.TurnID, Kind: state.Reply, To: m.msg.From,
		TurnID: m.head.TurnID, Epoch: m.head.Epoch, Origin: originOf(back, files), Trace: m.msg.Trace,
	}
	switch {
	case m.repliesByMail(rp.mail):
		e.Channel, e.Thread, e.To = state.ByMail, m.thread, rp.renderer.policy.Operator
	case m.msg.Source == state.Mail && rp.mail != nil:
		e.Channel, e.Thread = state.ByMail, m.thread
	case m.msg.Source == state.Mesh:
		e.Channel, e.Files = state.ByMesh, m.outgoing
		e.Correlation, e.Hops = m.msg.Correlation, passed(m.sent.Hops, rp.handle)
		e.Outcome, e.AfterExecution = how, mesh.Continue
	default:
		return nil, nil
	}
	data, err := rp.render(e, back, files)
	if err != nil {
		return nil, err
	}
	named := e
	named.ID = fmt.Sprintf("%s.%d", e.ID, m.head.Epoch) // an older runner must not overwrite these bytes
	e.File = effectFile(named)
	e.Sum, err = rp.store.KeepSummed(e.File, bytes.NewReader(data))
	return &e, err
}

// repliesByMail reports whether nobody mailed us the message, and the operator is mailed
// what came of it: the agent woke itself in their conversation, a program spoke, or what
// a turn of `tell` has started reported after its end, when nobody reads the terminal.
func (m turnMessage) repliesByMail(mail *Mail) bool {
	switch m.msg.Source {
	case state.Self:
		return mail != nil && m.msg.Operator
	case state.CLI:
		return mail != nil && m.msg.IsFollowUp()
	}
	return mail != nil && m.msg.Source == state.EventSource
}

// render returns the bytes of a reply. A report repeats the correlation id of its
// cause, or else the cause's own id, and adds us to its hops (docs/design.md, "The
// mesh").
func (rp replier) render(e state.Effect, back handedBack, files []message.Attachment) ([]byte, error) {
	if e.Channel == state.ByMail {
		return rp.renderer.renderMail(e, back.whole(), files, rp.now())
	}
	m := meshMessage(rp.handle, e, truncateJSON(back.Text, roomFor(meshFiles(e.Files))-back.Fields.Size()))
	m.Fields = back.Fields
	return json.Marshal(m)
}

// again renders a reply from the deliverable in its output box, if that and the
// files that go with it are what it was rendered from.
func (rp replier) again(e state.Effect) ([]byte, error) {
	dir := attemptDir(e.TurnID, e.Epoch)
	box, fields := path.Join(dir, "output"), fieldsFile
	if _, err := os.Lstat(rp.store.Path(path.Join(box, fields))); errors.Is(err, fs.ErrNotExist) {
		fields = ""
	}
	back, err := readHandedBack(rp.store, box, deliverableFile, fields)
	if err != nil {
		return nil, err
	}
	var files []message.Attachment
	if e.Channel == state.ByMail {
		names, _, err := turn.ListOutput(rp.store.Path(dir))
		if err != nil {
			return nil, fmt.Errorf("list the output box: %w", err)
		}
		files, _ = rp.attachments(dir, names)
	}
	if originOf(back, files) != e.Origin {
		return nil, errors.New("its deliverable, or a file that went with it, is not what it was")
	}
	return rp.render(e, back, files)
}

// originOf returns a sum of what a reply is rendered from. The order of the files
// does not count.
func originOf(back handedBack, files []message.Attachment) string {
	parts := []string{store.Sum([]byte(back.Text))}
	if len(back.Fields) > 0 {
		fields, _ := back.Fields.MarshalJSON() // they were made from JSON
		parts = append(parts, store.Sum(fields)+" fields")
	}
	for _, f := range files {
		parts = append(parts, fmt.Sprintf("%s %q", store.Sum(f.Data), f.Name))
	}
	slices.Sort(parts[1:])
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintln(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxAttached bounds, in bytes, what a reply carries.
const maxAttached = 10 << 20

// attachments returns the named files of an attempt's output box that go with a
// mail. unsent names the others, each with the reason.
func (rp replier) attachments(dir string, names []string) (files []message.Attachment, unsent []string) {
	left := int64(maxAttached)
	for _, name := range names {
		if isDeliverable(name) {
			continue
		}
		data, err := rp.readOutput(dir, name, left)
		if err != nil {
			unsent = append(unsent, fmt.Sprintf("file not attached: %s: %v", name, err))
			continue
		}
		left -= int64(len(data))
		files = append(files, message.Attachment{Name: path.Base(name), Data: data})
	}
	return files, unsent
}

// keepForReport keeps the named files of an attempt's output box that go with a report.
// unsent names the others, each with the reason.
func (rp replier) keepForReport(m *turnMessage, names []string) (unsent []string) {
	keeper, left := outgoingFiles{rp.store}, int64(mesh.MaxFilesBytes)
	for _, name := range names {
		if isDeliverable(name) {
			continue
		}
		ref, err := rp.keepOutput(m.dir(), name, len(m.outgoing), left)
		if err != nil {
			keeper.drop([]state.FileRef{ref})
			unsent = append(unsent, fmt.Sprintf("file not sent: %s: %v", name, err))
			continue
		}
		left -= ref.Size
		m.outgoing = append(m.outgoing, ref)
	}
	return unsent
}

// keepOutput keeps one file of the output box, if the report has room for it.
func (rp replier) keepOutput(dir, name string, before int, left int64) (ref state.FileRef, err error) {
	base := path.Base(name)
	if before == mesh.MaxFiles {
		return ref, fmt.Errorf("a report takes %d files", mesh.MaxFiles)
	}
	if !mesh.ValidFileName(base) {
		return ref, errors.New("it cannot go to another agent under this name")
	}
	f, err := turn.OpenOutput(rp.store.Path(dir), name)
	if err != nil {
		return ref, err
	}
	defer f.Close()
	if err := fitsMessage(f, name); err != nil {
		return ref, err
	}
	if info, err := f.Stat(); err != nil || info.Size() > left {
		return ref, fmt.Errorf("the files of a report are limited to %d MiB", mesh.MaxFilesBytes>>20)
	}
	ref, err = outgoingFiles{rp.store}.keepOne(OutgoingFile{Name: base, Body: f})
	if err == nil && ref.Size > left {
		err = fmt.Errorf("the files of a report are limited to %d MiB", mesh.MaxFilesBytes>>20)
	}
	return ref, err
}

// readOutput reads a file of the output box, if it has no more than n bytes.
func (rp replier) readOutput(dir, name string, n int64) ([]byte, error) {
	f, err := turn.OpenOutput(rp.store.Path(dir), name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, n+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > n {
		return nil, fmt.Errorf("the attachments of a reply are limited to %d MiB", maxAttached>>20)
	}
	return data, nil
}
