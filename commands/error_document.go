package commands

import (
	"cmp"
	"errors"

	"agentstateloop/commands/config"
)

// errorDocument is what a failed command prints with --json, unless it has printed
// its own document.
type errorDocument struct {
	Error errorOutput `json:"error"`
}

// errorOutput says why a command failed.
type errorOutput struct {
	Code    errorCode   `json:"code"`
	Message string      `json:"message"`
	Hint    *string     `json:"hint"`
	At      *errorPlace `json:"at"` // of a wrong configuration; else null
}

// errorPlace is a place in the configuration. Line and Key are null where the file as
// a whole is wrong.
type errorPlace struct {
	File string  `json:"file"`
	Line *int    `json:"line"`
	Key  *string `json:"key"`
}

// failed prints the document of a failed command. It is a single line, so that it
// ends a stream of lines too.
func (p *program) failed(err error) {
	if p.json && !p.out.Answered {
		_ = p.out.JSONLine(errorDocument{*outputOf(err)}) // an output that cannot be written has been reported
	}
}

// outputOf returns an error as JSON has it, or nil for nil.
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

// messageOf returns the text of an error, also of one that is for nobody.
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
