package cycle

import (
	"agentstateloop/cycle/files"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/state"
	"os"
	"path"
)

// Attached returns the files and notes of a message. The error wraps store.ErrDamaged if the
// payload is damaged. An attachment of a mail has a path only while the turn of the mail runs:
// the context folder holds it then. At other times it is in the mail alone.
func (a *Agent) CameWith(m state.Message) (files.Attached, error) {
	read, err := readMessage(a.Store, state.Head{}, m)
	came := filesOfMessage(files.Incoming{Store: a.Store}, read)
	if err != nil || m.Source != state.Mail {
		return came, err
	}
	s, err := a.Store.Read()
	if err != nil {
		return came, err
	}
	if folder := attachmentsOf(s, m.Key); folder != "" {
		for i, f := range came.Files {
			file := a.Store.Path(path.Join(folder, f.SaveAs))
			if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
				came.Files[i].Path = &file
			}
		}
	}
	return came, nil
}

// filesOfMessage returns the files and notes of a message.
func filesOfMessage(in files.Incoming, m turnMessage) files.Attached {
	if m.msg.Source == state.Mail {
		return files.AttachedToMail(m.content)
	}
	return files.Attached{Files: append([]files.Received{}, in.Kept(m.msg.Key, m.sent.Files)...), Problems: []string{}}
}

// attachmentsOf returns the folder with the attachments of a mail whose turn runs, or "".
func attachmentsOf(s state.State, key string) string {
	if s.Turn.Status == state.HeadIdle {
		return ""
	}
	box := path.Join(attemptDir(s.Turn.TurnID, s.Turn.Epoch), "context")
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

// CameWithQuarantined returns the files and notes of a message in quarantine. It returns no
// files for a damaged message.
func (a *Agent) CameWithQuarantined(item quarantine.Item) files.Attached {
	if item.Source == state.Mail {
		if raw, err := a.Store.ReadSummed(item.Payload, item.Sum); err == nil {
			return files.AttachedToMail(contentOf(a.Store, raw))
		}
	}
	return files.Attached{Files: files.Quarantined{Store: a.Store}.Received(item), Problems: []string{}}
}
