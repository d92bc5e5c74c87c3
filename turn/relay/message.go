package relay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The verbs. Nothing else can be asked of a runner.
const (
	Submit      = "submit"
	Suspend     = "suspend" // submit --after suspend
	Ask         = "ask"
	AskOperator = "ask_operator"
	Permit      = "permit"
	Send        = "send"
	Sleep       = "sleep"
	Remind      = "remind"
	Wakeups     = "wakeups" // answered by a list, as JSON
	Remember    = "remember"
	Search      = "search"
)

// Limits of a message, in bytes.
const (
	maxRequest = 8 << 20
	maxAnswer  = 16 << 20
)

// Request is what a command in the box asks for. Fields that its verb does not use
// are ignored.
type Request struct {
	Verb    string        `json:"verb"`
	To      string        `json:"to,omitempty"`      // of ask and send: a handle
	Text    string        `json:"text,omitempty"`    // of search: the words; of sleep: why it wakes
	Fields  []Field       `json:"fields,omitempty"`  // of submit
	Wanted  []Wanted      `json:"wanted,omitempty"`  // of ask: the results that its report is to have
	Finish  bool          `json:"finish,omitempty"`  // of submit: the turn ends at once
	For     time.Duration `json:"for,omitempty"`     // of ask: how long it waits; of sleep: how long it rests
	Most    int           `json:"most,omitempty"`    // of search: how many exchanges
	Options []string      `json:"options,omitempty"` // of ask_operator
	When    string        `json:"when,omitempty"`    // of remind
	Files   []string      `json:"files,omitempty"`   // of ask and send: names in the outgoing folder

	Permit bool `json:"permit,omitempty"` // of ask_operator: may a tool be called?

	// Of permit: the tool, and what it is to be called with.
	Tool  string          `json:"tool,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// Field is one named result: a value of JSON, or a text whose type the runner knows.
type Field struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty"`
	Text  string          `json:"text,omitempty"`
}

// Wanted is one result that a question asks for.
type Wanted struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Answer is what came of a Request.
type Answer struct {
	Text  string `json:"text,omitempty"`  // the id of a question; what a search found
	Error string `json:"error,omitempty"` // why nothing was done
	Hint  string `json:"hint,omitempty"`  // what can be done about the error
	Kind  string `json:"kind,omitempty"`  // the word for it in the JSON of a command
	Code  int    `json:"code,omitempty"`  // the exit code of a command with this error; 0 means 1
}

// writeMessage writes one message.
func writeMessage(w io.Writer, message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// errTooLong means that a message is longer than its limit.
var errTooLong = errors.New("the message is too long")

// readMessage reads one message of at most limit bytes.
func readMessage(r io.Reader, limit int64, message any) error {
	line, err := bufio.NewReader(io.LimitReader(r, limit+1)).ReadBytes('\n')
	switch {
	case int64(len(line)) > limit:
		return fmt.Errorf("%w: the limit is %d bytes", errTooLong, limit)
	case err != nil:
		return fmt.Errorf("the message is not whole: %w", err)
	}
	return json.Unmarshal(line, message)
}
