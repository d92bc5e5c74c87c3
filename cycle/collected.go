package cycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

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
		m.with = append(m.with, other)
	}
}

// earlierFolder returns the subfolder of the context folder for the other message number i,
// from 0.
func earlierFolder(i int) string { return fmt.Sprintf("earlier/%d", i+1) }

// collectedFiles returns the files of the other messages for the context folder.
func (m turnMessage) collectedFiles() (list []turn.File) {
	for i, other := range m.with {
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
	if len(m.with) == 0 {
		return m.fenced(fences)
	}
	parts := []string{fmt.Sprintf("Your one answer is for all of these %d messages, which their sender wrote in a row. The newest is the last. Each of the others is, whole and with its files, in a folder of its own in the context folder: earlier/1, and so on.", len(m.with)+1)}
	for i, one := range m.all() {
		head := fmt.Sprintf("%d. Received: %s", i+1, one.msg.At.UTC().Format(time.RFC3339))
		if one.subject != "" {
			head += ", subject: " + fences.Line(one.subject)
		}
		parts = append(parts, head+"\n"+one.fenced(fences))
	}
	return strings.Join(parts, "\n\n")
}

// all returns the messages that the turn answers, the oldest first.
func (m turnMessage) all() []turnMessage { return append(slices.Clone(m.with), m) }

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
func (m turnMessage) allFiles() (list []files.Listed) {
	for _, one := range m.all() {
		list = append(list, one.came...)
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
