package relay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The verbs. A runner accepts no other.
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

// Request is a command's request to the runner. The runner ignores fields that the verb does not
// use.
type Request struct {
	Verb    string        `json:"verb"`
	To      string        `json:"to,omitempty"`      // ask, send: a handle
	Text    string        `json:"text,omitempty"`    // search: the words; sleep: the reason to wake
	Fields  []Field       `json:"fields,omitempty"`  // submit
	Wanted  []Wanted      `json:"wanted,omitempty"`  // ask: the results that the report must have
	Finish  bool          `json:"finish,omitempty"`  // submit: end the turn at once
	For     time.Duration `json:"for,omitempty"`     // ask: how long to wait; sleep: how long to sleep
	Most    int           `json:"most,omitempty"`    // search: how many exchanges
	Options []string      `json:"options,omitempty"` // ask_operator
	When    string        `json:"when,omitempty"`    // remind
	Files   []string      `json:"files,omitempty"`   // ask, send: names in the outgoing folder

	Permit bool `json:"permit,omitempty"` // ask_operator: the question is whether a tool may be called

	// permit: the tool and its input.
	Tool  string          `json:"tool,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// Field is one named result: a JSON value, or a text whose type the runner knows.
type Field struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty"`
	Text  string          `json:"text,omitempty"`
}

// Wanted is one result that a question requests.
type Wanted struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Answer is the runner's answer to a Request.
type Answer struct {
	Text  string `json:"text,omitempty"`  // the id of a question, or the result of a search
	Error string `json:"error,omitempty"` // why the request failed
	Hint  string `json:"hint,omitempty"`  // how to resolve the error
	Kind  string `json:"kind,omitempty"`  // the kind of the error in the JSON of a command
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
var errTooLong = errors.New("message too long")

// readMessage reads one message of at most limit bytes.
func readMessage(r io.Reader, limit int64, message any) error {
	line, err := bufio.NewReader(io.LimitReader(r, limit+1)).ReadBytes('\n')
	switch {
	case int64(len(line)) > limit:
		return fmt.Errorf("%w: the limit is %d bytes", errTooLong, limit)
	case err != nil:
		return fmt.Errorf("incomplete message: %w", err)
	}
	return json.Unmarshal(line, message)
}
