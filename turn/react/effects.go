package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/state"
)

// Effects are the tools that act outside of the workdir. Package cycle implements them. A nil
// function omits its tool.
type Effects struct {
	Send        func(ctx context.Context, to, text string, files []string) error
	Ask         func(ctx context.Context, to, text string, fields []state.ResultField, files []string, patience time.Duration) (id string, err error)
	AskOperator func(ctx context.Context, question string, options []string, patience time.Duration) (id string, err error)
	Submit      func(ctx context.Context, r Submission) error
	Sleep       func(ctx context.Context, d time.Duration, why string) error
	Remind      func(ctx context.Context, when, text string) (time.Time, error)
	Suspend     func(ctx context.Context, text string, patience time.Duration) (id string, err error) // nil: submit_result cannot suspend the turn
	Remember    func(ctx context.Context, text string) error
	Search      func(ctx context.Context, query string, n int) (string, error)

	// SubmitsFiles lets submit_result name files, which go to Submit.
	SubmitsFiles bool
}

// Submission is the result of a turn: the arguments of submit_result.
type Submission struct {
	Text   string
	Fields map[string]json.RawMessage
	Files  []string
	Finish bool // the turn ends at once
}

// maxFound bounds the exchanges that a search returns.
const maxFound = 20

// Tools returns a tool for each function of e that is not nil.
func (e Effects) Tools() ([]Tool, error) {
	var g toolList
	if e.Send != nil {
		g.add(typedTool("send", "Sends a message to another agent, without waiting for an answer.", e.send))
	}
	if e.Ask != nil {
		g.add(typedTool("ask", "Asks another agent a question. Then end your turn without submit_result. The turn resumes when the answer arrives or times out.", e.ask))
	}
	if e.AskOperator != nil {
		g.add(typedTool("ask_operator", "Asks your operator a question by mail. Then end your turn without submit_result. The same turn resumes when they answer or the question times out. Ask before you do anything irreversible, and about decisions that only they can make. Put everything into one question.", e.askOperator))
	}
	const submit = "Sets the result of this turn, once: a text and named fields. Files in the reply's folder are attached. Without submit_result, your last message is the result."
	switch {
	case e.Submit != nil && e.SubmitsFiles:
		g.add(typedTool("submit_result", submit, e.submitWithFiles))
	case e.Submit != nil:
		g.add(typedTool("submit_result", submit, e.submit))
	}
	if e.Sleep != nil {
		g.add(typedTool("sleep", "Sleeps for a while after this turn. With a reason, a new turn wakes you at the end and gives you the reason. A message or a nudge ends the sleep early.", e.sleep))
	}
	if e.Remind != nil {
		g.add(typedTool("remind", "Wakes you at a given time in a new turn that gives you the text. Messages do not cancel a reminder.", e.remind))
	}
	if e.Remember != nil {
		g.add(typedTool("remember", "Replaces your working memory, which is part of each of your prompts. Keep it short.", e.remember))
	}
	if e.Search != nil {
		g.add(typedTool("search_history", "Searches all earlier messages to you and your answers.", e.search))
	}
	return g.tools, g.err
}

type sendArgs struct {
	To   string `json:"to" jsonschema:"the agent's handle, such as dorlange3120"`
	Text string `json:"text" jsonschema:"what to say"`

	Files []string `json:"files,omitempty" jsonschema:"files to attach: paths, as for your other tools"`
}

func (e Effects) send(ctx context.Context, a sendArgs) (string, error) {
	if err := checkText(a.Text); err != nil {
		return "", err
	}
	if err := e.Send(ctx, a.To, a.Text, a.Files); err != nil {
		return "", err
	}
	return "sent", nil
}

type askArgs struct {
	To      string       `json:"to" jsonschema:"the agent's handle, such as dorlange3120"`
	Text    string       `json:"text" jsonschema:"the question"`
	Fields  []askedField `json:"fields,omitempty" jsonschema:"named results to request"`
	Minutes int          `json:"minutes,omitempty" jsonschema:"how long to wait for the answer (default 10)"`

	Files []string `json:"files,omitempty" jsonschema:"files to attach: paths, as for your other tools"`
}

type askedField struct {
	Name        string `json:"name" jsonschema:"letters, digits, _ and -"`
	Type        string `json:"type,omitempty" jsonschema:"string, number, integer, boolean, array or object (default: any)"`
	Description string `json:"description,omitempty" jsonschema:"its meaning, on one line"`
	Required    bool   `json:"required,omitempty" jsonschema:"without it, the answer counts as partial"`
}

func (e Effects) ask(ctx context.Context, a askArgs) (string, error) {
	if err := checkText(a.Text); err != nil {
		return "", err
	}
	wait, err := minutes(a.Minutes, state.DefaultPatience, state.MaxPatience)
	if err != nil {
		return "", err
	}
	var fields []state.ResultField
	for _, f := range a.Fields {
		fields = append(fields, state.ResultField(f))
	}
	id, err := e.Ask(ctx, a.To, a.Text, fields, a.Files, wait)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("asked: id %s. End your turn now. It resumes with the answer.", id), nil
}

type askOperatorArgs struct {
	Question string   `json:"question" jsonschema:"the question, with everything the operator needs to answer it"`
	Options  []string `json:"options,omitempty" jsonschema:"suggested answers: at most 9, a few words each; the operator may answer differently"`
	Minutes  int      `json:"minutes,omitempty" jsonschema:"how long to wait for the answer (default 1440, a day)"`
}

func (e Effects) askOperator(ctx context.Context, a askOperatorArgs) (string, error) {
	wait, err := minutes(a.Minutes, state.DefaultOperatorPatience, state.MaxPatience)
	if err != nil {
		return "", err
	}
	id, err := e.AskOperator(ctx, a.Question, a.Options, wait)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("asked: id %s. End your turn now. It resumes with the answer.", id), nil
}

type submitArgs struct {
	Text    string                     `json:"text,omitempty" jsonschema:"the answer"`
	Fields  map[string]json.RawMessage `json:"fields,omitempty" jsonschema:"the named results that the message requests"`
	After   After                      `json:"after_execution,omitempty" jsonschema:"continue (default); terminate: end your turn at once; suspend: text is a preliminary answer, and your turn waits for a report with the returned id"`
	Minutes int                        `json:"minutes,omitempty" jsonschema:"with suspend: how long to wait (default 60)"`
}

func (e Effects) submit(ctx context.Context, a submitArgs) (string, error) {
	return e.submitWithFiles(ctx, submitFilesArgs{submitArgs: a})
}

// submitFilesArgs are the arguments of submit_result if it takes files.
type submitFilesArgs struct {
	submitArgs
	Files []string `json:"files,omitempty" jsonschema:"files to attach: paths, as for your other tools"`
}

func (e Effects) submitWithFiles(ctx context.Context, a submitFilesArgs) (string, error) {
	switch {
	case a.After != "" && a.After != Continue && a.After != Suspend && a.After != Terminate:
		return "", fmt.Errorf("invalid after_execution %q: use continue, suspend or terminate", string(a.After))
	case a.After == Suspend:
		return e.suspend(ctx, a)
	case a.Minutes != 0:
		return "", errors.New("minutes requires after_execution suspend")
	}
	if a.Text == "" && len(a.Fields) == 0 && len(a.Files) == 0 {
		return "", errors.New("nothing to submit: pass a text or fields")
	}
	if err := e.Submit(ctx, Submission{Text: a.Text, Fields: a.Fields, Files: a.Files, Finish: a.After == Terminate}); err != nil {
		return "", err
	}
	if a.After == Terminate {
		return "", Ending{After: Terminate, Text: a.Text}
	}
	return "submitted. This is the result of the turn. End the turn now.", nil
}

// suspend is submit with after_execution suspend.
func (e Effects) suspend(ctx context.Context, a submitFilesArgs) (string, error) {
	if len(a.Fields) > 0 || len(a.Files) > 0 {
		return "", errors.New("fields and files belong to the final result: submit them after the report")
	}
	if e.Suspend == nil {
		return "", errors.New("this turn cannot be suspended")
	}
	wait, err := minutes(a.Minutes, state.DefaultDeadline, state.MaxPatience)
	if err != nil {
		return "", err
	}
	id, err := e.Suspend(ctx, a.Text, wait)
	if err != nil {
		return "", err
	}
	return "", Ending{After: Suspend, Text: suspendNote(id, wait)}
}

type sleepArgs struct {
	Minutes int    `json:"minutes" jsonschema:"how long"`
	Reason  string `json:"reason,omitempty" jsonschema:"the reason to wake up; without it you only rest"`
}

func (e Effects) sleep(ctx context.Context, a sleepArgs) (string, error) {
	d, err := minutes(a.Minutes, 0, state.MaxSleep)
	if err != nil {
		return "", err
	}
	if err := e.Sleep(ctx, d, a.Reason); err != nil {
		return "", err
	}
	return fmt.Sprintf("sleep requested: %v from now", d), nil
}

type remindArgs struct {
	At      string `json:"at,omitempty" jsonschema:"when: 08:00 or 2026-03-02 08:00 in local time, or RFC 3339"`
	Minutes int    `json:"minutes,omitempty" jsonschema:"or in how many minutes"`
	Text    string `json:"text" jsonschema:"the text of the reminder"`
}

func (e Effects) remind(ctx context.Context, a remindArgs) (string, error) {
	if err := checkText(a.Text); err != nil {
		return "", err
	}
	when := a.At
	switch {
	case a.At != "" && a.Minutes != 0:
		return "", errors.New("pass at or minutes, not both")
	case a.At == "":
		d, err := minutes(a.Minutes, 0, state.MaxReminder)
		if err != nil {
			return "", err
		}
		when = d.String()
	}
	at, err := e.Remind(ctx, when, a.Text)
	if err != nil {
		return "", err
	}
	return "reminder set for " + at.Format(time.RFC3339), nil
}

type rememberArgs struct {
	Text string `json:"text" jsonschema:"your whole new memory"`
}

func (e Effects) remember(ctx context.Context, a rememberArgs) (string, error) {
	if err := e.Remember(ctx, a.Text); err != nil {
		return "", err
	}
	return "remembered", nil
}

type searchArgs struct {
	Query string `json:"query" jsonschema:"words to search for"`
	Most  int    `json:"most,omitempty" jsonschema:"how many exchanges (default 5, at most 20)"`
}

func (e Effects) search(ctx context.Context, a searchArgs) (string, error) {
	if a.Most == 0 {
		a.Most = 5
	}
	if a.Most < 0 {
		return "", errors.New("most must be at least 1")
	}
	found, err := e.Search(ctx, a.Query, min(a.Most, maxFound))
	if err == nil && found == "" {
		return "no matches", nil
	}
	return truncate(found, maxResult), err
}

// checkText returns an error if a text for a reader is blank.
func checkText(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("the text is empty")
	}
	return nil
}

// minutes returns a model's number of minutes as a duration of at most most. Zero means def if
// def is positive.
func minutes(minutes int, def, most time.Duration) (time.Duration, error) {
	if minutes == 0 && def > 0 {
		return def, nil
	}
	// Compare before the multiplication, which could overflow.
	if minutes <= 0 || minutes > int(most/time.Minute) {
		return 0, fmt.Errorf("invalid minutes %d: must be 1 to %d", minutes, int(most/time.Minute))
	}
	return time.Duration(minutes) * time.Minute, nil
}
