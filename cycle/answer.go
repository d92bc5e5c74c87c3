package cycle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/view"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// The reasons why an answer to a question of the agent is rejected.
var (
	ErrNotAsked    = errors.New("no such question to the operator")
	ErrQuestionEnd = errors.New("this question is closed")
)

// GivenAnswer is an accepted answer.
type GivenAnswer struct {
	ID     string   // of the question
	Key    string   // of the message whose turn asked
	Option string   // the offered option that the answer chose; "" = another text
	Others []string // all options that the question offers
}

// Answer answers a question to the operator from the terminal. which is the id of the question
// or the beginning of the id, or the key or the number of the message whose turn asks. The
// answer is durable when Answer returns. The errors are ErrNotAsked, ErrQuestionEnd and those
// of the disk.
func (a *Agent) Answer(ctx context.Context, which, from, text string) (GivenAnswer, error) {
	return a.answerTaker().take(ctx, which, from, text)
}

// answerTaker takes answers from the terminal.
type answerTaker struct {
	committer
}

func (a *Agent) answerTaker() *answerTaker { return &answerTaker{committer: a.committer()} }

// take is Answer.
func (t *answerTaker) take(ctx context.Context, which, from, text string) (g GivenAnswer, err error) {
	if strings.TrimSpace(text) == "" {
		return g, errors.New("the answer is empty")
	}
	if err := t.acts(); err != nil {
		return g, err
	}
	s, err := t.store.Read()
	if err != nil {
		return g, err
	}
	w, key, err := t.openQuestion(s, which)
	if err != nil {
		return g, err
	}
	g = GivenAnswer{ID: w.ID, Key: key, Others: w.Options}
	g.Option, _ = state.Option(w.Options, text)
	answerKey := "cli:" + store.NewID()
	payload := store.PayloadName(store.MessagesDir, answerKey, ".txt")
	sum, err := t.store.KeepSummed(payload, strings.NewReader(text))
	if err != nil {
		return g, fmt.Errorf("save answer: %w", err)
	}
	s, err = t.journal.commit(ctx, state.Replied{
		Arrived: state.Arrived{Message: state.Message{
			Key: answerKey, Source: state.CLI, From: from, Operator: true, At: t.now(), Payload: payload, Sum: sum, Size: len(text),
		}},
		Question: w.ID, Only: true,
	})
	if err != nil {
		return g, err
	}
	if now, _, _ := s.OperatorWait(w.ID); now.Report != payload {
		_ = t.store.Remove(payload)
		return g, fmt.Errorf("%w: another answer came first, or the deadline passed", ErrQuestionEnd)
	}
	return g, nil
}

// openQuestion returns the open question that which names, and the key of the message whose turn
// asks it.
func (t *answerTaker) openQuestion(s state.State, which string) (w state.Wait, key string, err error) {
	type row struct {
		state.Wait
		key string
	}
	var all []row
	for _, w := range s.Turn.Waiting {
		all = append(all, row{w, s.Turn.Key})
	}
	for _, x := range s.Expected {
		all = append(all, row{x.Wait, x.For})
	}
	named, err := view.KeyOf(t.store, s, which)
	if err != nil {
		return w, "", err
	}
	all = slices.DeleteFunc(all, func(r row) bool {
		return !r.Operator || r.key != named && !strings.HasPrefix(r.ID, which)
	})
	open := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return !s.AsksOperatorAt(r.ID, t.now()) })
	switch {
	case len(open) == 1:
		return open[0].Wait, open[0].key, nil
	case len(open) > 1:
		var ids []string
		for _, r := range open {
			ids = append(ids, r.ID)
		}
		return w, "", fmt.Errorf("%s has %d open questions: give the id of one, %s", which, len(open), strings.Join(ids, " or "))
	case len(all) == 0:
		return w, "", t.closedError(which)
	case all[0].Report != "":
		return w, "", fmt.Errorf("%w: it is already answered", ErrQuestionEnd)
	case !t.now().Before(all[0].By) || all[0].Missed != "":
		return w, "", fmt.Errorf("%w: its deadline was %s", ErrQuestionEnd, all[0].By.UTC().Format(time.RFC3339))
	}
	return w, "", fmt.Errorf("%w: the turn that asked is ending", ErrQuestionEnd)
}

// closedError returns the error for a question that is not open: it was answered, its turn is
// over, or it was never asked.
func (t *answerTaker) closedError(which string) error {
	asked := false
	for l, err := range t.store.Newest(overSearched, state.LineEdge) {
		switch {
		case err != nil:
			return err
		case l.Request != which || !strings.HasPrefix(which, string(state.OperatorQuestion)+"."):
			continue
		case l.AnswersOperatorQuestion():
			return fmt.Errorf("%w: it is already answered", ErrQuestionEnd)
		}
		asked = true
	}
	if asked {
		return fmt.Errorf("%w: no turn waits for the answer any more", ErrQuestionEnd)
	}
	return fmt.Errorf("%w: %s", ErrNotAsked, strconv.Quote(which))
}

// AnswersFile is the file of the context folder with the operator's answers to the questions of
// the turn: an array of OperatorAnswer, in the order of the questions. It exists if at least
// one question of the turn has an outcome.
const AnswersFile = "answers.json"

// The outcomes of a question to the operator.
const (
	OperatorAnswered   = "answered"
	OperatorLate       = "late"       // the deadline passed without an answer
	OperatorSuperseded = "superseded" // the operator wrote about something else
	OperatorDamaged    = "damaged"    // the answer came, but is unreadable
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

// forPrompt returns the answer as a prompt shows it, or a note about the missing answer.
func (a OperatorAnswer) forPrompt() string {
	switch a.Outcome {
	case OperatorAnswered:
		return a.Answer
	case OperatorLate:
		return "(no answer: your operator did not answer in time; a later answer will arrive as a separate message)"
	case OperatorSuperseded:
		return "(no answer: your operator wrote about something else; that message waits until this turn ends)"
	case OperatorDamaged:
		return "(no answer: your operator answered, but the answer was damaged on this machine and is unreadable)"
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
		p.logf("the operator's answers are left out: %v", err)
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
		a.Outcome = OperatorSuperseded
		return a, nil
	}
	data, err := p.store.ReadSummed(w.Report, w.Sum)
	switch {
	case err == nil && strings.HasSuffix(w.Report, ".eml"):
		content := contentOf(p.store, data)
		a.Answer = cmp.Or(content.Placeholder(), content.Text)
		var listed []files.ListedFile
		listed, list = files.FromMail(path.Join(folder, files.AttachmentsFolder), content.Attachments)
		a.fileList = files.List(listed)
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
