package cycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// turnMessage is one message with what its turn needs: read from the payload, since
// the inbox row is kept lean.
type turnMessage struct {
	head state.Head
	msg  state.Message
	raw  []byte

	subject string
	text    string // the new text, for the prompt
	full    string // the whole text, quoted history included
	thread  state.Thread
	sent    mesh.Message // the mesh message, where it is one
	files   []message.Attachment
	reports []string // what a resumed turn waited for
	said    string   // what it had said by then
}

// attemptDir is the folder of one attempt, below the agent's directory.
func attemptDir(turnID string, epoch uint64) string {
	return path.Join(store.TurnsDir, turnID, strconv.FormatUint(epoch, 10))
}

func (w turnMessage) dir() string { return attemptDir(w.head.TurnID, w.head.Epoch) }

// load reads the payload of a message. One that is gone leaves a turn that
// says so: the message was accepted, and is answered.
func (a *Agent) load(head state.Head, msg state.Message) (turnMessage, error) {
	w := turnMessage{head: head, msg: msg}
	var err error
	w.raw, err = os.ReadFile(a.Store.Path(msg.Payload))
	if err != nil {
		return w, fmt.Errorf("read message %s: %w", msg.Key, err)
	}
	switch msg.Source {
	case state.Mail:
		content := message.ReadContent(bytes.NewReader(w.raw))
		w.text, w.full, w.files = content.Text, content.Full, content.Attachments
		header := message.ParseHeader(w.raw)
		w.thread, w.subject = mailThread(header), header.Subject
	case state.Mesh:
		if err := json.Unmarshal(w.raw, &w.sent); err != nil {
			return w, fmt.Errorf("read message %s: %w", msg.Key, err)
		}
		w.text = w.sent.Text
	default:
		w.text = string(w.raw)
	}
	return w, nil
}

// context is what the agent finds in its context box, read-only.
func (w turnMessage) context(history, system string) []turn.File {
	name := "message.txt"
	files := []turn.File{
		{Name: "text.txt", Body: strings.NewReader(w.text)},
		{Name: "history.txt", Body: strings.NewReader(history)},
		{Name: "system.md", Body: strings.NewReader(system)},
	}
	switch w.msg.Source {
	case state.Mail:
		name = "message.eml"
		files = append(files, turn.File{Name: "full.txt", Body: strings.NewReader(w.full)})
	case state.Mesh:
		name = "message.json"
	}
	files = append(files, turn.File{Name: name, Body: bytes.NewReader(w.raw)})
	for _, f := range w.files {
		files = append(files, turn.File{Name: "attachments/" + f.Name, Body: bytes.NewReader(f.Data)})
	}
	return files
}
