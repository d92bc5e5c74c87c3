package cycle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"path"
	"strings"

	"agentstateloop/cycle/files"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// AnswersFile is the file of the context folder with the operator's answers to the questions of
// the turn: an array of OperatorAnswer, in the order of the questions. It exists if at least
// one question of the turn has an outcome.
const AnswersFile = "answers.json"

// The outcomes of a question to the operator.
const (
	OperatorAnswered = "answered"
	OperatorLate     = "late"       // the deadline passed without an answer
	OperatorElse     = "superseded" // the operator wrote about something else
	OperatorDamaged  = "damaged"    // the answer came, but is unreadable
)

// OperatorAnswer is the outcome of one question to the operator.
type OperatorAnswer struct {
	ID       string   `json:"id"`       // the id that asking returned
	Question string   `json:"question"` // its beginning, 200 characters at most, on one line
	Options  []string `json:"options"`  // the offered options; never null
	Outcome  string   `json:"outcome"`  // answered, late, superseded or damaged
	Option   string   `json:"option"`   // the chosen option; "" for another answer, or without one
	Answer   string   `json:"answer"`   // its text, or ""

	fileList string // the files that came with it, as a prompt lists them
}

// shown returns the answer as a prompt shows it, or a note about the missing answer.
func (a OperatorAnswer) shown() string {
	switch a.Outcome {
	case OperatorAnswered:
		return a.Answer
	case OperatorLate:
		return "(no answer: your operator did not answer in time; if they do later, it comes as a message of its own)"
	case OperatorElse:
		return "(no answer: your operator wrote about something else, and that waits for this turn to end)"
	case OperatorDamaged:
		return "(no answer: your operator answered, but the answer was damaged on this machine and cannot be read)"
	}
	return ""
}

// operatorAnswers returns AnswersFile with all operator answers that the turn has.
func (p *prompter) operatorAnswers(waiting []state.Wait) []turn.File {
	var answers []OperatorAnswer
	for _, w := range waiting {
		if w.Operator && w.Answered() {
			a, _ := p.operatorAnswer(w, "")
			answers = append(answers, a)
		}
	}
	if len(answers) == 0 {
		return nil
	}
	data, err := json.MarshalIndent(answers, "", "  ")
	if err != nil {
		p.logf("the answers of the operator are left out: %v", err)
		return nil
	}
	return []turn.File{{Name: AnswersFile, Body: bytes.NewReader(append(data, '\n'))}}
}

// operatorAnswer reads the outcome of one question. It returns the files that came with the
// answer, for a subfolder of the context folder.
func (p *prompter) operatorAnswer(w state.Wait, folder string) (a OperatorAnswer, list []turn.File) {
	a = OperatorAnswer{ID: w.ID, Question: w.Text, Options: append([]string{}, w.Options...), Outcome: OperatorAnswered}
	switch {
	case w.Missed == state.MissedTimeout:
		a.Outcome = OperatorLate
		return a, nil
	case w.Missed != "":
		a.Outcome = OperatorElse
		return a, nil
	}
	data, err := p.store.ReadSummed(w.Report, w.Sum)
	switch {
	case err == nil && strings.HasSuffix(w.Report, ".eml"):
		content := contentOf(p.store, data)
		a.Answer = cmp.Or(content.Instead(), content.Text)
		var came []files.Listed
		came, list = files.FromMail(path.Join(folder, files.AttachmentsFolder), content.Attachments)
		a.fileList = files.List(came)
	case err == nil:
		a.Answer = string(data)
	default:
		a.Outcome = OperatorDamaged
		p.logf("the answer to %s cannot be read: %v", w.ID, err)
		return a, nil
	}
	var chosen bool
	if a.Option, chosen = state.Option(w.Options, a.Answer); !chosen {
		a.Option, _ = state.Option(w.Options, message.WithoutBanners(a.Answer))
	}
	return a, list
}
