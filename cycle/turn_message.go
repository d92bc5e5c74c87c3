package cycle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/prompt"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// turnMessage is one message with the data that its turn needs. The data is read from the
// message's payload, because the inbox row is kept small.
type turnMessage struct {
	head state.Head
	msg  state.Message
	raw  []byte

	subject       string
	text          string // the new text, for the prompt
	full          string // the whole text, quoted history included
	thread        state.Thread
	sent          mesh.Message       // the mesh message, if it is one
	content       message.Content    // of a mail
	fileList      []files.ListedFile // files that came with the message
	boxFiles      []turn.File        // the same, for the context folder
	outgoing      []state.FileRef    // files that go with its reply
	reportFiles   []turn.File        // files that came with the reports
	others        []turnMessage      // other messages of the sender that the turn answers, oldest first
	reports       []prompt.Report    // the reports for a resumed turn
	earlierOutput string             // the agent's output before the turn was suspended
	ownSession    bool               // its turn has a session of its own, which is not continued
}

func (m turnMessage) dir() string { return store.AttemptDir(m.head.TurnID, m.head.Epoch) }

// readMessage reads the payload of a message. The error wraps store.ErrDamaged if the payload
// is damaged. The turn then hands the error back, because an accepted message is answered.
func readMessage(st *store.Store, head state.Head, msg state.Message) (turnMessage, error) {
	m := turnMessage{head: head, msg: msg}
	var err error
	m.raw, err = st.ReadSummed(msg.Payload, msg.Sum)
	if err != nil {
		return m, fmt.Errorf("read message %s: %w", msg.Key, err)
	}
	switch msg.Source {
	case state.Mail:
		m.content = contentOf(st, m.raw)
		if msg.Nameless && len(m.content.Attachments) == 1 { // the agent could take the name for an order
			m.content.Attachments[0].Title = ""
		}
		m.text, m.full = cmp.Or(m.content.Placeholder(), m.content.Text), m.content.Full
		header := message.ParseHeader(m.raw)
		m.thread, m.subject = mailThread(header, msg.ThreadID), header.Subject
	case state.Mesh:
		if err := json.Unmarshal(m.raw, &m.sent); err != nil {
			return m, fmt.Errorf("read message %s: %w", msg.Key, err)
		}
		m.text = m.sent.Text
		if state.CheckResultFields(m.sent.ResultFields) != nil {
			m.sent.ResultFields = nil // an older version let it in
		}
	case state.Clock:
		m.subject, m.text = msg.From, string(m.raw)
	case state.EventSource:
		m.subject, m.text = msg.Title, string(m.raw)
	default:
		m.text = string(m.raw)
	}
	return m, nil
}

// receive lists the files that came with the message, and puts them into the context folder:
// those of a mail into attachments/ below folder, those of the mesh into meshFolder. Files of
// the mesh are compared with their sums.
func (m *turnMessage) receive(st *store.Store, folder, meshFolder string) {
	if m.msg.Source == state.Mail {
		m.fileList, m.boxFiles = files.FromMail(path.Join(folder, files.AttachmentsFolder), m.content.Attachments)
		return
	}
	m.fileList, m.boxFiles = files.Incoming{Store: st}.Received(m.msg.Key, meshFolder, m.sent.Files)
}

// The agent's input besides its prompt. These files of the context folder have no other copy,
// and stay with the attempt, as does turn.LeftOutName.
const (
	historyFile = "history.txt"
	systemFile  = "system.md"
)

// clearContext removes the other files of the context folder when the agent of an attempt has
// ended, so that a message is only in messages/ (docs/design.md, "Costs"). It runs before the
// commit that ends the attempt: after a crash the state still names the attempt, and the
// watchdog ends it again. But it runs after the last write of the attempt: a full disk must
// show there.
func clearContext(st *store.Store, dir string) {
	if st.CheckFolders(dir) == nil {
		turn.ClearContext(st.Path(dir), historyFile, systemFile, turn.LeftOutName)
	}
}

// context returns the files of the agent's context folder, which is read-only.
func (m turnMessage) context(history, system string) []turn.File {
	name := "message.txt"
	list := []turn.File{
		{Name: "text.txt", Body: strings.NewReader(m.text)},
		{Name: historyFile, Body: strings.NewReader(history)},
		{Name: systemFile, Body: strings.NewReader(system)},
	}
	switch m.msg.Source {
	case state.Mail:
		name = "message.eml"
		list = append(list, turn.File{Name: "full.txt", Body: strings.NewReader(m.full)})
	case state.Mesh:
		name = "message.json"
	}
	list = append(list, turn.File{Name: name, Body: bytes.NewReader(m.raw)})
	return slices.Concat(list, m.boxFiles, m.reportFiles, m.collectedFiles())
}

// fencedText returns the text of one message in a fence, with the problems of its mail and the list
// of its files.
func (m turnMessage) fencedText(fences prompt.Fences) string {
	text := m.text
	if n := len(m.content.Problems); n > 0 {
		problems := m.content.Problems[:min(n, maxProblems)]
		text += "\n\n(Parts of this mail could not be read as intended: " + strings.Join(problems, "; ")
		if n > maxProblems {
			text += fmt.Sprintf("; and %d more", n-maxProblems)
		}
		text += ".)"
	}
	return fences.Message(text, files.List(m.fileList))
}

// The limits for one message in a prompt: maxProblems problems of its structure and, when it is
// a past exchange, maxRemembered files.
const (
	maxProblems   = 3
	maxRemembered = 10
)

// textAndFiles returns the text of one message as past exchanges keep it, with the names of its
// files, so that a search for a name finds it.
func (m turnMessage) textAndFiles() string {
	var list []string
	for _, a := range m.content.Attachments {
		list = append(list, fmt.Sprintf("%s (%s)", plain.Name(a.SendersName()), plain.Size(int64(len(a.Data)))))
	}
	for _, f := range m.sent.Files {
		list = append(list, fmt.Sprintf("%s (%s)", plain.Name(f.Name), plain.Size(f.Size)))
	}
	if n := len(list); n > maxRemembered {
		list = append(list[:maxRemembered], fmt.Sprintf("and %d more", n-maxRemembered))
	}
	if len(list) == 0 {
		return m.text
	}
	return "(Files: " + strings.Join(list, ", ") + ")\n\n" + m.text // the files come first, because a long text is truncated
}

// One turn answers all messages that one sender wrote in a row (docs/design.md, "Turns").

// collect reads the other messages that the turn answers, and adds them to the References of
// the answer. A note takes the place of an unreadable message.
func (m *turnMessage) collect(st *store.Store, all []state.Message) {
	for i, msg := range all {
		other, err := readMessage(st, m.head, msg)
		if err != nil {
			other.text = "(this message cannot be read: " + err.Error() + ")"
		}
		folder := earlierFolder(i)
		other.receive(st, folder, folder)
		if id := other.thread.MessageID; id != "" && !slices.Contains(m.thread.References, id) {
			m.thread.References = append(slices.Clone(m.thread.References), id)
		}
		m.others = append(m.others, other)
	}
}

// earlierFolder returns the subfolder of the context folder for the other message number i,
// from 0.
func earlierFolder(i int) string { return fmt.Sprintf("earlier/%d", i+1) }

// collectedFiles returns the files of the other messages for the context folder.
func (m turnMessage) collectedFiles() (list []turn.File) {
	for i, other := range m.others {
		folder := earlierFolder(i) + "/"
		for _, f := range other.context("", "") {
			if f.Name == "history.txt" || f.Name == "system.md" {
				continue
			}
			if !strings.HasPrefix(f.Name, "earlier/") {
				f.Name = folder + f.Name
			}
			list = append(list, f)
		}
	}
	return list
}

// message returns the texts that the turn answers, each in its own fence. If there are several,
// each has its time and subject.
func (m turnMessage) message(fences prompt.Fences) string {
	if len(m.others) == 0 {
		return m.fencedText(fences)
	}
	parts := []string{fmt.Sprintf("Give one answer to all of these %d messages, which their sender wrote in a row. The newest is the last. The others are complete, with their files, in subfolders of the context folder: earlier/1, and so on.", len(m.others)+1)}
	for i, one := range m.all() {
		head := fmt.Sprintf("%d. Received: %s", i+1, one.msg.At.UTC().Format(time.RFC3339))
		if one.subject != "" {
			head += ", subject: " + fences.Line(one.subject)
		}
		parts = append(parts, head+"\n"+one.fencedText(fences))
	}
	return strings.Join(parts, "\n\n")
}

// all returns the messages that the turn answers, the oldest first.
func (m turnMessage) all() []turnMessage { return append(slices.Clone(m.others), m) }

// allText returns the texts that the turn answers, the oldest first, each with the files
// that came with it.
func (m turnMessage) allText() string {
	var texts []string
	for _, one := range m.all() {
		texts = append(texts, one.textAndFiles())
	}
	return strings.Join(texts, "\n\n")
}

// allFiles returns the files that came with the messages that the turn answers.
func (m turnMessage) allFiles() (list []files.ListedFile) {
	for _, one := range m.all() {
		list = append(list, one.fileList...)
	}
	return list
}

// CollectWait returns how long a poll may wait for the sender of a message to fall silent, or 0
// if it need not wait (docs/design.md, "Turns").
func (a *Agent) CollectWait() (time.Duration, error) {
	s, err := a.Store.Read()
	if err != nil {
		return 0, err
	}
	at, waits := s.CollectingUntil()
	if !waits || s.Turn.Status != state.HeadIdle || s.Halted() {
		return 0, nil
	}
	wait := at.Sub(a.Now())
	if wait > maxCollectWait {
		return 0, nil
	}
	return max(wait, 0), nil
}

// maxCollectWait limits how long a poll waits for a sender to fall silent. Another poll comes
// within a minute anyway.
const maxCollectWait = time.Minute

// FilesOf returns the files and notes of a message. The error wraps store.ErrDamaged if the
// payload is damaged. An attachment of a mail has a path only while the turn of the mail runs:
// the context folder holds it then. At other times it is in the mail alone.
func (a *Agent) FilesOf(m state.Message) (files.Attachments, error) {
	read, err := readMessage(a.Store, state.Head{}, m)
	attached := filesOfMessage(files.Incoming{Store: a.Store}, read)
	if err != nil || m.Source != state.Mail {
		return attached, err
	}
	s, err := a.Store.Read()
	if err != nil {
		return attached, err
	}
	if folder := attachmentsOf(s, m.Key); folder != "" {
		for i, f := range attached.Files {
			file := a.Store.Path(path.Join(folder, f.SaveAs))
			if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
				attached.Files[i].Path = &file
			}
		}
	}
	return attached, nil
}

// filesOfMessage returns the files and notes of a message.
func filesOfMessage(in files.Incoming, m turnMessage) files.Attachments {
	if m.msg.Source == state.Mail {
		return files.AttachedToMail(m.content)
	}
	return files.Attachments{Files: append([]files.ReceivedFile{}, in.Kept(m.msg.Key, m.sent.Files)...), Problems: []string{}}
}

// attachmentsOf returns the folder with the attachments of a mail whose turn runs, or "".
func attachmentsOf(s state.State, key string) string {
	if s.Turn.Status == state.HeadIdle {
		return ""
	}
	box := path.Join(store.AttemptDir(s.Turn.TurnID, s.Turn.Epoch), "context")
	if s.Turn.Key == key {
		return path.Join(box, files.AttachmentsFolder)
	}
	for i, other := range s.Collected() {
		if other.Key == key {
			return path.Join(box, earlierFolder(i), files.AttachmentsFolder)
		}
	}
	return ""
}

// FilesOfQuarantined returns the files and notes of a message in quarantine. It returns no
// files for a damaged message.
func (a *Agent) FilesOfQuarantined(item quarantine.Item) files.Attachments {
	if item.Source == state.Mail {
		if raw, err := a.Store.ReadSummed(item.Payload, item.Sum); err == nil {
			return files.AttachedToMail(contentOf(a.Store, raw))
		}
	}
	return files.Attachments{Files: files.QuarantinedFiles{Store: a.Store}.Received(item), Problems: []string{}}
}
