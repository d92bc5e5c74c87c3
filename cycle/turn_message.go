package cycle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/prompt"
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

	subject     string
	text        string // the new text, for the prompt
	full        string // the whole text, quoted history included
	thread      state.Thread
	sent        mesh.Message    // the mesh message, if it is one
	content     message.Content // of a mail
	came        []files.Listed  // files that came with the message
	boxFiles    []turn.File     // the same, for the context folder
	outgoing    []state.FileRef // files that go with its reply
	reportFiles []turn.File     // files that came with the reports
	with        []turnMessage   // other messages of the sender that the turn answers, oldest first
	reports     []prompt.Report // the reports for a resumed turn
	said        string          // the agent's output before the turn was suspended
	apart       bool            // its turn has a session of its own, which is not continued
}

// attemptDir returns the folder of one attempt, below the agent's directory.
func attemptDir(turnID string, epoch uint64) string {
	return path.Join(store.TurnsDir, turnID, strconv.FormatUint(epoch, 10))
}

func (m turnMessage) dir() string { return attemptDir(m.head.TurnID, m.head.Epoch) }

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
		m.text, m.full = cmp.Or(m.content.Instead(), m.content.Text), m.content.Full
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
		m.came, m.boxFiles = files.FromMail(path.Join(folder, files.AttachmentsFolder), m.content.Attachments)
		return
	}
	m.came, m.boxFiles = files.Incoming{Store: st}.Received(m.msg.Key, meshFolder, m.sent.Files)
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

// fenced returns the text of one message in a fence, with the problems of its mail and the list
// of its files.
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
	return fences.Message(text, files.List(m.came))
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
