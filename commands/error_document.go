package commands

import (
	"cmp"
	"errors"

	"agentstateloop/commands/config"
)

// errorDocument is the JSON output of a failed command, unless the command has printed its own
// document.
type errorDocument struct {
	Error errorOutput `json:"error"`
}

// errorOutput describes the error of a command.
type errorOutput struct {
	Code    errorCode   `json:"code"`
	Message string      `json:"message"`
	Hint    *string     `json:"hint"`
	At      *errorPlace `json:"at"` // place in a wrong configuration; else null
}

// errorPlace is a place in the configuration. Line and Key are null if the file as a whole is
// wrong.
type errorPlace struct {
	File string  `json:"file"`
	Line *int    `json:"line"`
	Key  *string `json:"key"`
}

// failed prints the document of a failed command. It is a single line, so it can also end a
// stream of lines.
func (p *program) failed(err error) {
	if p.json && !p.out.Answered {
		_ = p.out.JSONLine(errorDocument{*outputOf(err)}) // a failed write has already been reported
	}
}

// outputOf converts an error to its JSON output, and nil to nil.
func outputOf(err error) *errorOutput {
	if err == nil {
		return nil
	}
	e := &errorOutput{Code: errorCodeOf(err), Message: messageOf(err), Hint: orNull(hintOf(err))}
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		e.At = &errorPlace{File: wrong.Path, Line: orNull(wrong.Line), Key: orNull(wrong.Key)}
	}
	return e
}

// messageOf returns the text of an error, even of a silentError.
func messageOf(err error) string {
	if e, ok := errors.AsType[silentError](err); ok {
		return e.error.Error()
	}
	return cmp.Or(err.Error(), "it failed")
}

// orNull returns a pointer to v, or nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
